#include <cmath>
#include <memory>

#include "folio/c/handles.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/io/json.h"
#include "folio/run/run_config.h"
#include "folio/run/training_run.h"

using folio::Guarded;
using folio::Json;
using folio::PathArgument;
using folio::RequireArgument;

struct folio_train {
  folio::RunSettings settings = {};
  std::unique_ptr<folio::TrainingRun> run = {};
};

namespace folio {

void Prepare(const PrepareOptions& options, const folio_watch& watch) {
  PrepareHooks hooks;
  hooks.progress = [&](int64_t done, int64_t total) { Tell(watch, done, total); };
  PrepareDataset(options, hooks);
}

void Apply(const folio_options& options, RunSettings& settings) {
  settings.UsePreset(options.train.preset);
  for (const auto& [key, value] : options.train.settings) settings.Set(key, value);
}

}  // namespace folio

folio_status folio_data_prepare(const char* const* texts, size_t count, const char* directory,
                                const folio_options* options, const folio_watch* watch,
                                folio_error** error) {
  return Guarded(error, [&] {
    PathArgument(directory, "directory");
    const folio_watch watching = folio::WatchArgument(watch);
    folio_options named = folio::OptionsArgument(options, folio_options::Kind::kPrepare);
    folio::PrepareOptions& prepare = named.prepare;
    prepare.files = folio::FindTextFiles(folio::TextsArgument(texts, count),
                                         {.field = prepare.field, .raw = prepare.raw})
                        .files;
    prepare.out = directory;
    folio::Prepare(prepare, watching);
  });
}

folio_status folio_train_new(const char* const* data, size_t count, const char* run,
                             const folio_options* options, const folio_watch* watch,
                             folio_train** out, folio_error** error) {
  return Guarded(error, [&] {
    PathArgument(run, "run");
    RequireArgument(out, "out");
    const folio_watch watching = folio::WatchArgument(watch);
    const folio_options named = folio::OptionsArgument(options, folio_options::Kind::kTrain);
    folio::TrainingRunOptions run_options{
        .data = folio::PathsArgument(data, count, "data"),
        .out = run,
        .resume = named.train.resume,
        .overwrite = named.train.overwrite,
        .prepare = [&](const folio::PrepareOptions& texts) { folio::Prepare(texts, watching); }};
    auto train = std::make_unique<folio_train>();
    folio::Apply(named, train->settings);
    train->run = std::make_unique<folio::TrainingRun>(train->settings, std::move(run_options));
    *out = train.release();
  });
}

folio_status folio_train_run(folio_train* train, const folio_watch* watch, folio_buffer* json,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(train, "train");
    if (train->run == nullptr) throw folio::UsageError("train: this run has been trained already");
    const folio_watch watching = folio::WatchArgument(watch);
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
    hooks.abandon_requested = [&] {
      stop |= watching.poll != nullptr && watching.poll(watching.user) != 0;
      return stop || folio::IsRequested(watching.cancel);
    };
    hooks.stop_requested = hooks.abandon_requested;
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
