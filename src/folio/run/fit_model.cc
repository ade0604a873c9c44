#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/bench/operations.h"
#include "folio/run/automatic_settings.h"
#include "folio/run/prepared_run.h"
#include "folio/tensor/dtype.h"
#include "folio/train/train_state.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Returns true if the model keeps its embeddings although its own tokenizer has more tokens than
// they have rows: data with tokens beyond them is refused.
bool KeepsRows(const PreparedRun& run) {
  if (run.data->info().vocab_size <= run.config().model.vocab_size) return false;
  if (run.resume) return !run.config().train.init.empty();
  return run.initial && run.initial->tokenizer != nullptr && run.tokenizer != nullptr &&
         run.initial->tokenizer->hash() == run.tokenizer->hash();
}

// Throws a kInput Error if the data has a token beyond so many rows of the embeddings.
void RequireRows(const Dataset& data, int64_t rows) {
  try {
    data.train().Validate(rows);
    data.val().Validate(rows);
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(),
                     fmt::format("the model's embeddings have {} rows, its tokenizer {} tokens: "
                                 "remove tokens without a row from the text",
                                 rows, data.info().vocab_size));
  }
}

// Sets the tokens that begin and end a text. A model that is `given` keeps the one that begins a
// text.
void SetEnds(const Tokenizer& tokenizer, const DatasetInfo& info, bool given, GptConfig& model) {
  const std::optional<int32_t> end = tokenizer.end_of_text();
  if (!given || !model.bos_token_id) model.bos_token_id = end;
  if (end || !given) model.eos_token_id = end;
  if (info.chat && info.chat->end) model.eos_token_id = info.chat->end;
}

}  // namespace

void WarnOfLength(const PreparedRun& run) {
  const bool steps_follow = run.automatic || (run.budget_seconds > 0 && run.initial);
  if (run.resume || steps_follow || !run.ranks.first()) return;
  const std::string warning = LengthWarning(run.settings, [&] {
    constexpr double kProbeSeconds = 0.1;
    const Dtype dtype = TrainDtype(run.config().train, run.config().model, *run.backend);
    return run.ranks.size() * MeasureMatmulPeak(*run.backend, dtype, kProbeSeconds);
  });
  if (!warning.empty()) LogWarning(warning);
}

void ChooseSizeAndSteps(PreparedRun& run) {
  RunSettings& settings = run.settings;
  RunConfig& config = run.config();
  const Dataset& data = *run.data;
  const double whole = run.budget_seconds, used = SteadySeconds() - run.began;
  const double seconds = std::max(whole - used, whole / 10);  // it may all be gone already
  const bool steps_open = settings.layers.layer("train.max_steps") <= Layer::kPreset;
  if (run.initial) {
    run.ranks.Note(ChooseFineTuning(settings, data, *run.backend, whole > 0 ? seconds : 0));
  } else if (run.automatic) {
    run.ranks.Note(ChooseSize(settings, data, *run.backend, seconds));
  } else if (!config.train.budget.empty() && steps_open) {
    run.ranks.Note(ChooseSteps(settings, data, *run.backend, seconds));
  }
  const int64_t context = config.train.context;
  if (context == 0) config.train.context = config.model.n_positions;
  FollowEpochs(settings, data);
  if (run.resume) return;
  const std::string limited = LimitEvaluations(settings, data.val().size());
  if (!limited.empty()) run.ranks.Note(limited);
  config.train.context = context;
}

void ResolveTraining(PreparedRun& run) {
  TrainConfig& train = run.config().train;
  train.context = ContextOf(run.config().model, train);
  train.Validate("settings");
  // A run keeps the dtype that "auto" chose, so that it has the same bits when it is resumed.
  train.dtype = DtypeSetting(TrainDtype(train, run.config().model, *run.backend));
  if (!run.initial) return;
  // Adapters name their model by an absolute path, by which other programs find it.
  train.init = train.saves_adapters() ? fs::absolute(run.initial->path).lexically_normal().string()
                                      : run.initial->path.string();
  if (!train.init_adapter.empty()) train.init_adapter = fs::absolute(train.init_adapter).string();
}

void RequireWindow(const PreparedRun& run) {
  constexpr int64_t kFew = 16;  // no length to train on
  const Dataset& data = *run.data;
  if (data.info().chat) return;
  const int64_t T = run.config().train.context;
  const int64_t learned = data.train().size(), held_out = data.val().size();
  const bool whole = run.config().train.eval_batches == 0;
  const int64_t shorter = whole ? learned : std::min(learned, held_out);
  if (shorter > T) return;
  const std::vector<std::string> given = GivenData(run);
  throw InputError(
      fmt::format("{}: shorter than one window", given.empty() ? data.dir() : Join(given, ", ")),
      fmt::format(
          "a context of {} needs {} tokens; there are {} training tokens and {} held-out tokens",
          WithCommas(T), WithCommas(T + 1), WithCommas(learned), WithCommas(held_out)),
      shorter > kFew ? fmt::format("use --context {} or less, or more text", shorter - 1)
                     : "use more text");
}

void FitModelToData(PreparedRun& run) {
  RunSettings& settings = run.settings;
  const RunConfig& config = run.config();
  GptConfig& model = run.config().model;
  const Dataset& data = *run.data;
  const Tokenizer* tokenizer = run.tokenizer.get();
  if (!model.causal && config.log.sample_every > 0) {
    throw UsageError(
        "a model that is not causal cannot generate samples",
        fmt::format("model.causal is false, log.sample_every is {}", config.log.sample_every),
        "set log.sample_every to 0");
  }
  const int64_t V = data.info().vocab_size;
  if (KeepsRows(run)) {
    if (run.ranks.first() && !run.resume) RequireRows(data, model.vocab_size);
  } else if (V > 0) {
    const bool asked = settings.layers.layer("model.vocab_size") > Layer::kPreset;
    if (asked && model.vocab_size < V) {
      throw UsageError(fmt::format("{}: model.vocab_size is too small",
                                   settings.layers.origin("model.vocab_size")),
                       fmt::format("it is {}, the data has {} tokens", model.vocab_size, V),
                       fmt::format("set it to {} or more, or remove it", V));
    }
    const bool given = !config.train.init.empty();  // and may have more rows than tokens
    const bool more_rows = given && !run.resume && V > model.vocab_size;
    if (more_rows && config.train.lora.on() && data.info().chat) {
      throw UsageError("adapters cannot learn the tokens that mark turns",
                       "the model does not have these tokens, and --lora does not train embeddings",
                       "remove --lora, or start from a model that was trained on conversations");
    }
    if (more_rows && config.train.saves_adapters()) {
      throw UsageError("--save adapter does not support new tokens",
                       fmt::format("the model has {} tokens, the data has {}", model.vocab_size, V),
                       "remove --save to save the whole model");
    }
    if (more_rows && config.train.lora.on() && !asked) {
      run.ranks.Note(fmt::format(
          "the embeddings of {} new tokens keep their initial values: only adapters are trained",
          V - model.vocab_size));
    }
    if (!asked) model.vocab_size = given ? std::max(V, model.vocab_size) : V;
  }
  if (tokenizer != nullptr) {
    if (run.resume) RequireSameTokenizer(run.checkpoint, data, *tokenizer);
    run.tokenizer->set_known_tokens(model.vocab_size);
    SetEnds(*tokenizer, data.info(), /*given=*/!config.train.init.empty(), model);
  } else if (const std::string note = data.BareNote(); !note.empty()) {
    run.ranks.Note(note);
  }
  model.Validate("settings");
}

}  // namespace folio
