#pragma once

#include "folio/dist/group.h"
#include "folio/model/config.h"
#include "folio/train/config.h"
#include "folio/train/gradient_sum.h"

namespace folio {

// Throws a kUsage Error that names the nearest numbers unless so many ranks go into teams of
// tensor_parallel; the second also unless the settings are valid and the teams can share the
// micro-batches of a step evenly.
void RequireTensorParallelRanks(const TrainConfig& config, int ranks);
void RequireShares(const TrainConfig& config, int ranks);

// A rank's shard of the model, and its share of a step. The first throws as RequireShares and
// RequireShards do. A group of null is one rank alone.
Shard ShardOfRank(const GptConfig& model, const TrainConfig& config, Group* group);
Parallelism ParallelismOf(const TrainConfig& config, Group* group);

}  // namespace folio
