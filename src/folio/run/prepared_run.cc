#include "folio/run/prepared_run.h"

#include <string_view>

#include "folio/base/clock.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/model_files/same_model.h"
#include "folio/run/automatic_settings.h"
#include "folio/train/ranks.h"
#include "folio/train/train_state.h"

namespace folio {
namespace {

// Throws a kUsage Error unless the ranks can share a step and have the same settings, except the
// number of threads.
void RequireSameSettings(const RunRanks& ranks, RunConfig& config) {
  if (ranks.group() != nullptr) {
    constexpr std::string_view kOwn[] = {"train.threads"};
    RequireSame(*ranks.group(), "settings", SettingLines(config.Fields(), kOwn));
  }
  RequireShares(config.train, ranks.size());
}

// The settings that the first rank chose by measuring become those of all.
void ShareSettings(const RunRanks& ranks, RunSettings& settings) {
  if (ranks.group() == nullptr) return;
  std::string mine;
  for (const Field& field : settings.layers.fields()) {
    mine += field.key + "=" + FieldText(field) + "\n";
  }
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& line : Split(ranks.Share(mine), '\n')) {
    const size_t equals = line.find('=');
    if (equals != line.npos) values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  if (ranks.first()) return;
  settings.layers.UsePreset("of the first rank", values);
  settings.Resolve();
}

void MakeRunBackend(PreparedRun& run) {
  const TrainConfig& train = run.config().train;
  if (train.threads > 0) SetThreads(static_cast<int>(train.threads));
  run.backend = MakeBackend(train.backend);
  if (!train.check_numerics) return;
  auto finite = std::make_unique<FiniteBackend>(std::move(run.backend));
  run.finite = finite.get();
  run.backend = std::move(finite);
}

}  // namespace

PreparedRun PrepareRun(RunSettings& settings, TrainingRunOptions options) {
  const RunRanks ranks(options.group, options.on_note);
  PreparedRun run{.settings = settings,
                  .options = std::move(options),
                  .ranks = ranks,
                  .began = SteadySeconds()};
  GatherSettings(run);
  RequireSameSettings(ranks, run.config());
  MakeRunBackend(run);
  WarnOfLength(run);
  OpenData(run);
  if (ranks.first()) ChooseSizeAndSteps(run);
  ShareSettings(ranks, settings);
  ResolveTraining(run);
  RequireWindow(run);
  FitModelToData(run);
  const Dataset& data = *run.data;
  if (!run.resume) {
    const std::string cut = RequireWholeConversations(settings, data);
    if (!cut.empty()) ranks.Note(cut);
  }
  // Throws, if there can be no such shards, before anything is measured.
  ShardOfRank(run.config().model, run.config().train, ranks.group());
  if (run.resume) NoteChangedSettings(run);
  run.preview = std::make_unique<TrainPreview>(run.config(), data, *run.backend,
                                               ThisMachinesMemory(), ranks.size());
  return run;
}

void PreparedRun::ProbePreview() const {
  preview->Probe(resume ? SavedStep(checkpoint) : 0, resume ? SavedBudgetSeconds(checkpoint) : 0);
}

}  // namespace folio
