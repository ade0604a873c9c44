#include "folio/train/rank_shares.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/model/divisors.h"
#include "folio/model/shard.h"
#include "folio/train/precision.h"

namespace folio {

void RequireTensorParallelRanks(const TrainConfig& config, int ranks) {
  const auto tensor = static_cast<int>(config.tensor_parallel);
  if (ranks % tensor == 0) return;
  const int below = ranks / tensor * tensor;
  throw UsageError(
      ranks == 1 ? fmt::format("one rank alone is no team of {}", tensor)
                 : fmt::format("{} ranks do not go into teams of {}", ranks, tensor),
      fmt::format("--tensor-parallel {} says how many share each layer; the nearest that go "
                  "together: {}{} ranks, or --tensor-parallel {}",
                  tensor, below > 0 ? fmt::format("{} or ", below) : "", below + tensor,
                  NearestDivisors(ranks, tensor)),
      "start as many ranks as --tensor-parallel, or a multiple of them, with mpirun or srun");
}

void RequireShares(const TrainConfig& config, int ranks) {
  config.Validate("settings");
  RequireTensorParallelRanks(config, ranks);
  const auto tensor = static_cast<int>(config.tensor_parallel);
  const int64_t every = config.reduce_every, n = config.grad_accumulation / every;
  ranks /= tensor;
  if (n % ranks == 0) return;
  const std::string who = tensor > 1 ? fmt::format("teams of {} ranks", tensor) : "ranks";
  int64_t fewer = ranks, more = ranks;
  while (n % fewer != 0) --fewer;
  while (more < n && n % more != 0) ++more;
  const int64_t below = n / ranks * ranks, above = below + ranks;
  throw UsageError(
      fmt::format("{} {} cannot share {} micro-batches evenly{}", ranks, who,
                  config.grad_accumulation,
                  every > 1 ? fmt::format(", {} in a row (--reduce-every)", every) : ""),
      fmt::format("--grad-accumulation {} says how many a step has, on all ranks together; the "
                  "nearest that go together: {}{} {}, or --grad-accumulation {}{}",
                  config.grad_accumulation, fewer, more <= n ? fmt::format(" or {}", more) : "",
                  who, below > 0 ? fmt::format("{} or ", below * every) : "", above * every),
      "ranks that divide it evenly make the same run, whatever their number");
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

}  // namespace folio
