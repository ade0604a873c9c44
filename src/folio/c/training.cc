#include <fmt/format.h>

#include <cstring>

#include "folio/c/handles.h"
#include "folio/io/json.h"
#include "folio/run/run_config.h"
#include "folio/run/training_run.h"

using folio::Guarded;
using folio::Json;
using folio::RequireArgument;

struct folio_train {
  folio::RunSettings settings = {};
  std::unique_ptr<folio::TrainingRun> run = {};
};

namespace {

// The members that the caller's version of the struct has, and nothing in place of the others.
folio_watch WatchArgument(const folio_watch* watch) {
  folio_watch all{};
  if (watch == nullptr) return all;
  constexpr size_t kLeast = offsetof(folio_watch, evaluation) + sizeof(all.evaluation);
  if (watch->size < kLeast) {
    throw folio::UsageError(fmt::format("watch: its size is {}", watch->size),
                            fmt::format("expected {} at least", kLeast),
                            "set size to sizeof(folio_watch)");
  }
  std::memcpy(&all, watch, std::min(watch->size, sizeof(all)));
  return all;
}

}  // namespace

folio_status folio_train_new(const char* const* data, size_t count, const char* run,
                             const folio_options* options, const folio_watch* watch,
                             folio_train** out, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(run, "run");
    RequireArgument(out, "out");
    if (count > 0) RequireArgument(data, "data");
    const folio_watch watching = WatchArgument(watch);
    const folio_options named = folio::OptionsArgument(options, folio_options::Kind::kTrain);
    folio::TrainingRunOptions of{.out = run,
                                 .resume = named.train.resume,
                                 .overwrite = named.train.overwrite,
                                 .on_prepare = [&](int64_t done, int64_t total) {
                                   if (folio::IsRequested(watching.cancel) ||
                                       (watching.progress != nullptr &&
                                        watching.progress(watching.user, done, total) != 0)) {
                                     throw folio::CallCancelled{};
                                   }
                                 }};
    for (size_t i = 0; i < count; ++i) {
      RequireArgument(data[i], fmt::format("data[{}]", i));
      of.data.emplace_back(data[i]);
    }
    auto train = std::make_unique<folio_train>();
    train->settings.UsePreset(named.train.preset);
    for (const auto& [key, value] : named.train.settings) train->settings.Set(key, value);
    train->run = std::make_unique<folio::TrainingRun>(train->settings, std::move(of));
    *out = train.release();
  });
}

folio_status folio_train_run(folio_train* train, const folio_watch* watch, folio_buffer* json,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(train, "train");
    if (train->run == nullptr) throw folio::UsageError("train: the run has been trained");
    const folio_watch watching = WatchArgument(watch);
    bool stop = false;
    folio::RunHooks hooks;
    hooks.on_step = [&](const folio::StepMetrics& m) {
      if (watching.step == nullptr) return;
      stop |= watching.step(watching.user, m.step, m.loss.value_or(NAN), m.lr.value_or(NAN),
                            m.tokens_per_second.value_or(NAN)) != 0;
    };
    hooks.on_evaluation = [&](int64_t step, const folio::Evaluation& losses) {
      if (watching.evaluation == nullptr) return;
      stop |= watching.evaluation(watching.user, step, losses.train_loss, losses.val_loss) != 0;
    };
    hooks.stop_requested = [&] { return stop || folio::IsRequested(watching.cancel); };
    const std::unique_ptr<folio::TrainingRun> run = std::move(train->run);
    const folio::TrainResult result = run->Train(hooks);
    if (json == nullptr) return;
    Json told{{"step", result.step},          {"tokens", result.tokens},
              {"seconds", result.seconds},    {"stopped", result.stopped},
              {"ended_by", result.ended_by},  {"best_val_loss", result.best_val_loss},
              {"best_step", result.best_step}};
    if (result.evaluation) {
      told["train_loss"] = result.evaluation->train_loss;
      told["val_loss"] = result.evaluation->val_loss;
    }
    json->Set(told.dump());
  });
}

void folio_train_free(folio_train* train) {
  delete train;
}
