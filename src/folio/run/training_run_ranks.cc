// What a TrainingRun has to do with other ranks.

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "folio/base/machine.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/piece_ranks.h"
#include "folio/dist/group.h"
#include "folio/dist/same.h"
#include "folio/dist/workers.h"
#include "folio/io/json.h"
#include "folio/run/training_run.h"
#include "folio/train/rank_shares.h"

namespace folio {

bool TrainingRun::first() const {
  return options_.group == nullptr || options_.group->first();
}

std::string TrainingRun::Broadcast(const std::string& mine) const {
  return options_.group == nullptr ? mine : options_.group->Broadcast(mine);
}

// DataDir of the first rank, whom the others help.
std::string TrainingRun::DataDirOfRanks() {
  if (options_.group == nullptr) return DataDir(nullptr);
  if (!first()) {
    PrepareAsWorker(*options_.group);
    return Broadcast("");
  }
  std::string dir;
  {
    Workers workers(options_.group);
    dir = DataDir(&workers);
  }
  return Broadcast(dir);
}

// Every setting but how many threads each has must be that of the others, and the ranks must be so
// many that they can share a step.
void TrainingRun::RequireSameSettings() {
  std::string lines;
  for (const Field& field : config_.Fields()) {
    if (field.key != "train.threads") lines += field.key + " = " + FieldText(field) + "\n";
  }
  RequireSame(*options_.group, "settings", lines);
  RequireShares(config_.train, options_.group->size());
}

// What the first rank chose by measuring, for all.
void TrainingRun::ShareSettings() {
  Settings& layers = settings_.layers;
  std::string mine;
  for (const Field& field : layers.fields()) mine += field.key + "=" + FieldText(field) + "\n";
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& line : Split(Broadcast(mine), '\n')) {
    const size_t equals = line.find('=');
    if (equals != line.npos) values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  if (first()) return;
  layers.UsePreset("of the first rank", values);
  settings_.Resolve();
}

// A line for each rank.
std::string TrainingRun::RankPlan(bool json) const {
  if (options_.group == nullptr) return "";
  const Group& group = *options_.group;
  const int64_t turns =
      config_.train.grad_accumulation / (group.size() / config_.train.tensor_parallel);
  const std::string line =
      json ? Json{{"event", "rank"},
                  {"rank", group.rank()},
                  {"host", group.HostOf(group.rank())},
                  {"threads", Threads()},
                  {"micro_batches", turns},
                  {"simd", SimdTarget()},
                  {"backend_description", backend_->description()},
                  {"memory_available_bytes", ThisMachinesMemory().available}}
                 .dump()
           : fmt::format("{}: {} of {} micro-batches, {} threads ({}), {} of memory free",
                         group.NameOf(group.rank()), turns, config_.train.grad_accumulation,
                         Threads(), SimdTarget(),
                         HumanBytes(static_cast<double>(ThisMachinesMemory().available)));
  return Join(options_.group->Gather(line), "\n") + "\n";
}

}  // namespace folio
