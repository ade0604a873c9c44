#include "folio/run/run_ranks.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "folio/base/machine.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/piece_ranks.h"
#include "folio/dist/group.h"
#include "folio/dist/workers.h"
#include "folio/io/json.h"
#include "folio/train/ranks.h"

namespace folio {

std::string RunRanks::MakeTogether(const std::function<std::string(Workers*)>& make) const {
  if (group_ == nullptr) return make(nullptr);
  std::string made;
  if (first()) {
    Workers workers(group_);
    made = make(&workers);
  } else {
    PrepareAsWorker(*group_);
  }
  return Share(made);
}

void RunRanks::RequireSameSettings(RunConfig& config) const {
  if (group_ != nullptr) {
    std::string lines;
    for (const Field& field : config.Fields()) {
      if (field.key != "train.threads") lines += field.key + " = " + FieldText(field) + "\n";
    }
    RequireSame(*group_, "settings", lines);
  }
  RequireShares(config.train, size());
}

void RunRanks::ShareSettings(RunSettings& settings) const {
  if (group_ == nullptr) return;
  std::string mine;
  for (const Field& field : settings.layers.fields()) {
    mine += field.key + "=" + FieldText(field) + "\n";
  }
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& line : Split(Share(mine), '\n')) {
    const size_t equals = line.find('=');
    if (equals != line.npos) values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  if (first()) return;
  settings.layers.UsePreset("of the first rank", values);
  settings.Resolve();
}

std::string RunRanks::Describe(const RunConfig& config, const Backend& backend, bool json) const {
  if (group_ == nullptr) return "";
  const TrainConfig& train = config.train;
  const int64_t turns = train.grad_accumulation / (size() / train.tensor_parallel);
  const std::string line =
      json ? Json{{"event", "rank"},
                  {"rank", group_->rank()},
                  {"host", group_->HostOf(group_->rank())},
                  {"threads", Threads()},
                  {"micro_batches", turns},
                  {"simd", SimdTarget()},
                  {"backend_description", backend.description()},
                  {"memory_available_bytes", ThisMachinesMemory().available}}
                 .dump()
           : fmt::format("{}: {} of {} micro-batches, {} threads ({}), {} of memory free",
                         group_->NameOf(group_->rank()), turns, train.grad_accumulation, Threads(),
                         SimdTarget(),
                         HumanBytes(static_cast<double>(ThisMachinesMemory().available)));
  return Join(group_->Gather(line), "\n") + "\n";
}

}  // namespace folio
