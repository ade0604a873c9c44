#include "folio/run/prepared_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/run/automatic.h"
#include "folio/run/whole_conversations.h"
#include "folio/tensor/dtype.h"
#include "folio/train/precision.h"
#include "folio/train/ranks.h"
#include "folio/train/train_state.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

void MakeRunBackend(PreparedRun& run) {
  const TrainConfig& train = run.config().train;
  if (train.threads > 0) SetThreads(static_cast<int>(train.threads));
  run.backend = MakeBackend(train.backend);
  if (!train.check_numerics) return;
  auto finite = std::make_unique<FiniteBackend>(std::move(run.backend));
  run.finite = finite.get();
  run.backend = std::move(finite);
}

// Warns of a run that would take too long, before anything is made of its text.
void WarnOfLength(const PreparedRun& run) {
  const RunStart& start = run.start;
  const bool steps_follow = start.automatic || (start.budget_seconds > 0 && start.initial);
  if (start.resume || steps_follow || !run.ranks.first()) return;
  const std::string warning = LengthWarning(run.settings, *run.backend, run.ranks.size());
  if (!warning.empty()) LogWarning(warning);
}

// Chooses what nobody has said of size, steps and evaluations.
void ChoosePlan(PreparedRun& run) {
  RunSettings& settings = run.settings;
  RunConfig& config = run.config();
  const RunStart& start = run.start;
  const Dataset& data = *run.data.data;
  const double whole = start.budget_seconds, used = SteadySeconds() - run.began;
  const double seconds = std::max(whole - used, whole / 10);  // it may all be gone already
  const bool steps_open = settings.layers.layer("train.max_steps") <= Layer::kPreset;
  if (start.automatic) {
    run.ranks.Note(ChooseSize(settings, data, *run.backend, seconds));
  } else if ((whole > 0 && start.initial) || (!config.train.budget.empty() && steps_open)) {
    run.ranks.Note(ChooseSteps(settings, data, *run.backend, seconds));
  }
  if (start.resume) return;
  const int64_t context = config.train.context;
  if (context == 0) config.train.context = config.model.n_positions;
  const std::string limited = LimitEvaluations(settings, data.val().size());
  if (!limited.empty()) run.ranks.Note(limited);
  config.train.context = context;
}

// Vocabulary and special tokens are the data's.
void FitModelToData(PreparedRun& run) {
  RunSettings& settings = run.settings;
  const RunConfig& config = run.config();
  GptConfig& model = run.config().model;
  const Dataset& data = *run.data.data;
  const Tokenizer* tokenizer = run.data.tokenizer.get();
  if (!model.causal && config.log.sample_every > 0) {
    throw UsageError(
        "a model that is not causal cannot write samples",
        fmt::format("model.causal is false, log.sample_every is {}", config.log.sample_every),
        "set log.sample_every to 0");
  }
  const int64_t V = data.info().vocab_size;
  if (V > 0) {
    const bool asked = settings.layers.layer("model.vocab_size") > Layer::kPreset;
    if (asked && model.vocab_size < V) {
      throw UsageError(fmt::format("{}: model.vocab_size is too small",
                                   settings.layers.origin("model.vocab_size")),
                       fmt::format("it is {}, the data has {} tokens", model.vocab_size, V),
                       fmt::format("set it to {} or more, or leave it out", V));
    }
    const bool given = !config.train.init.empty();  // and may have more rows than tokens
    const bool more_rows = given && !run.start.resume && V > model.vocab_size;
    if (more_rows && config.train.lora.on() && data.info().chat) {
      throw UsageError(
          "adapters alone cannot learn the tokens that mark turns",
          "the model does not have them yet, and --lora trains no rows of the vocabulary",
          "leave --lora out, or start from a model that was trained on conversations");
    }
    if (more_rows && config.train.lora.on() && !asked) {
      run.ranks.Note(
          fmt::format("the rows of {} new tokens stay as they begin: adapters alone are trained",
                      V - model.vocab_size));
    }
    if (!asked) model.vocab_size = given ? std::max(V, model.vocab_size) : V;
  }
  if (tokenizer != nullptr) {
    if (run.start.resume) RequireSameTokenizer(run.start.checkpoint, data, *tokenizer);
    model.bos_token_id = model.eos_token_id = tokenizer->end_of_text();
    if (data.info().chat) model.eos_token_id = data.info().chat->end;
  } else if (const std::string note = data.BareNote(); !note.empty()) {
    run.ranks.Note(note);
  }
  model.Validate("settings");
}

// Settings that say what was found: the length of sequences, the dtype, the places of models.
void ResolveTraining(PreparedRun& run) {
  TrainConfig& train = run.config().train;
  train.context = ContextOf(run.config().model, train);
  train.Validate("settings");
  // A run goes on in the format it began with, wherever that is.
  // A run remembers what "auto" meant, that it may go on bit for bit.
  train.dtype = DtypeSetting(TrainDtype(train, run.config().model, *run.backend));
  if (!run.start.initial) return;
  // The names are such that other programs find the model that an adapter names.
  train.init = run.start.initial->path.string();
  if (!train.init_adapter.empty()) train.init_adapter = fs::absolute(train.init_adapter).string();
}

}  // namespace

PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options) {
  const RunRanks ranks(options.group, options.console);
  PreparedRun run{.settings = settings,
                  .options = std::move(options),
                  .ranks = ranks,
                  .began = SteadySeconds()};
  run.start = StartRun(settings, run.options, ranks);
  ranks.RequireSameSettings(run.config());
  MakeRunBackend(run);
  WarnOfLength(run);
  run.data = OpenRunData(settings, run.options, run.start, ranks);
  if (ranks.first()) ChoosePlan(run);
  ranks.ShareSettings(settings);
  ResolveTraining(run);
  FitModelToData(run);
  const Dataset& data = *run.data.data;
  if (!run.start.resume) {
    const std::string cut = RequireWholeConversations(settings, data);
    if (!cut.empty()) ranks.Note(cut);
  }
  // Parts that cannot be had are refused before anything is measured.
  ShardOfRank(run.config().model, run.config().train, ranks.group());
  if (run.start.resume) TellChanges(settings, run.options, run.start, ranks);
  run.preview = std::make_unique<TrainPreview>(run.config(), data, *run.backend,
                                               ThisMachinesMemory(), ranks.size());
  return run;
}

std::string PlanRun(PreparedRun& run, bool json) {
  const RunStart& start = run.start;
  run.preview->Probe(start.resume ? SavedStep(start.checkpoint) : 0,
                     start.resume ? SavedBudgetSeconds(start.checkpoint) : 0);
  const std::string ranks = run.ranks.Describe(run.config(), *run.backend, json);
  if (json) return run.preview->Event() + "\n" + ranks;
  return run.preview->Plan() + ranks + run.preview->Estimate() + "\n";
}

}  // namespace folio
