#include "folio/train/ranks.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/base/log.h"
#include "folio/base/math.h"
#include "folio/model/shard_weights.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

void RequireTensorParallelRanks(const TrainConfig& config, int ranks) {
  const auto tensor = static_cast<int>(config.tensor_parallel);
  if (ranks % tensor == 0) return;
  const int below = ranks / tensor * tensor;
  throw UsageError(ranks == 1
                       ? fmt::format("one rank cannot form a group of {}", tensor)
                       : fmt::format("{} ranks do not divide into groups of {}", ranks, tensor),
                   fmt::format("--tensor-parallel {} is the number of ranks that share each layer; "
                               "possible are {}{} ranks, or --tensor-parallel {}",
                               tensor, below > 0 ? fmt::format("{} or ", below) : "",
                               below + tensor, NearestDivisors(ranks, tensor)),
                   "start a multiple of --tensor-parallel ranks with mpirun or srun");
}

void RequireShares(const TrainConfig& config, int ranks) {
  config.Validate("settings");
  RequireTensorParallelRanks(config, ranks);
  const auto tensor = static_cast<int>(config.tensor_parallel);
  const int64_t every = config.reduce_every, n = config.grad_accumulation / every;
  ranks /= tensor;
  if (n % ranks == 0) return;
  const std::string who = tensor > 1 ? fmt::format("groups of {} ranks", tensor) : "ranks";
  int64_t fewer = ranks, more = ranks;
  while (n % fewer != 0) --fewer;
  while (more < n && n % more != 0) ++more;
  const int64_t below = n / ranks * ranks, above = below + ranks;
  throw UsageError(
      fmt::format("{} {} cannot share {} micro-batches evenly{}", ranks, who,
                  config.grad_accumulation,
                  every > 1 ? fmt::format(", in groups of {} (--reduce-every)", every) : ""),
      fmt::format("--grad-accumulation {} is the number of micro-batches in a step, on all ranks; "
                  "possible are {}{} {}, or --grad-accumulation {}{}",
                  config.grad_accumulation, fewer, more <= n ? fmt::format(" or {}", more) : "",
                  who, below > 0 ? fmt::format("{} or ", below * every) : "", above * every),
      "the results do not depend on the number of ranks");
}

Shard ShardOfRank(const GptConfig& model, const TrainConfig& config, Group* group) {
  RequireShares(config, group == nullptr ? 1 : group->size());
  RequireShards(model, config.lora, config.tensor_parallel);
  if (group == nullptr) return {};
  return {.index = group->rank() % config.tensor_parallel, .count = config.tensor_parallel};
}

Parallelism ParallelismOf(const TrainConfig& config, Group* group) {
  Parallelism parts{.group = group,
                    .tensor = static_cast<int>(config.tensor_parallel),
                    .reduce_every = config.reduce_every,
                    .reduce = ReduceDtype(config)};
  parts.micro_batches = config.grad_accumulation / parts.data().size();
  return parts;
}

std::vector<int> Stragglers::Add(const std::vector<double>& seconds) {
  slow_.resize(seconds.size());
  const double median = Median(seconds);
  std::vector<int> found;
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    slow_[rank] = seconds[rank] > kSlow * median ? slow_[rank] + 1 : 0;
    if (slow_[rank] == kSteps) found.push_back(static_cast<int>(rank));
  }
  return found;
}

RankFlags RankControl::Poll(const RankFlags& mine) const {
  if (group_ == nullptr) return mine;
  std::vector<uint8_t> bytes;
  for (const auto flag : RankFlags::kAll) bytes.push_back(mine.*flag);
  RankFlags any;
  for (const std::vector<uint8_t>& rank : GatherNumbers(*group_, bytes)) {
    for (size_t i = 0; i < rank.size(); ++i) {
      any.*RankFlags::kAll[i] = any.*RankFlags::kAll[i] || rank[i] != 0;
    }
  }
  return any;
}

std::vector<double> RankControl::GatherSeconds(double seconds) {
  std::vector<double> all;
  for (const std::vector<double>& rank : GatherNumbers(*group_, std::vector<double>{seconds})) {
    all.push_back(rank[0]);
  }
  if (!first()) return all;
  for (const int slow : stragglers_.Add(all)) {
    LogWarning(
        fmt::format("{} is slow: {:.3f} s of computing per step, the median is {:.3f} s; other "
                    "ranks wait for it",
                    group_->NameOf(slow), all[static_cast<size_t>(slow)], Median(all)));
  }
  return all;
}

void RankControl::RequireSameBytes(const Tensor& weights, int parts, int64_t step,
                                   const std::string& checkpoint) const {
  if (group_ == nullptr) return;
  const HostCopy mine(weights);
  const auto* bytes = reinterpret_cast<const char*>(mine.tensor().host_bytes());
  const auto all = group_->GatherEqual(HashHex({bytes, weights.bytes()}));
  for (int rank = 1; rank < group_->size(); ++rank) {
    const int with = rank % parts;  // the first with that part
    if (all[static_cast<size_t>(rank)] == all[static_cast<size_t>(with)]) continue;
    throw RuntimeError(
        fmt::format("the weights of {} and {} differ at step {}", group_->NameOf(rank),
                    with == 0 ? "the first rank" : group_->NameOf(with), step),
        checkpoint,
        "they must be identical: check the memory and processor of that machine, then continue "
        "with --resume");
  }
}

}  // namespace folio
