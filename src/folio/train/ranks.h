#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "folio/model/config.h"
#include "folio/ranks/group.h"
#include "folio/tensor/tensor.h"
#include "folio/train/config.h"
#include "folio/train/gradient_sum.h"

namespace folio {

// Throws a kUsage Error that names the nearest numbers unless so many ranks go into teams of
// tensor_parallel; the second also unless the settings are valid and the teams can share the
// micro-batches of a step evenly.
void RequireTensorParallelRanks(const TrainConfig& config, int ranks);
void RequireShares(const TrainConfig& config, int ranks);

// A rank's shard of the model, and its share of a step. The first throws as RequireShares and
// RequireShards do. A null group is one rank alone.
Shard ShardOfRank(const GptConfig& model, const TrainConfig& config, Group* group);
Parallelism ParallelismOf(const TrainConfig& config, Group* group);

// The flags of a training step. A flag that one rank raises is raised for all after the same step.
struct RankFlags {
  bool stop = false;            // asked to stop
  bool out_of_time = false;     // train.max_time is over
  bool checkpoint = false;      // asked for a checkpoint
  bool written = false;         // the checkpoint that was begun is written
  bool writing_pieces = false;  // a rank still writes its pieces of that checkpoint

  static constexpr std::array kAll = {&RankFlags::stop, &RankFlags::out_of_time,
                                      &RankFlags::checkpoint, &RankFlags::written,
                                      &RankFlags::writing_pieces};
};

// Finds ranks that slow down the others: those that compute kSlow times as long as the median of
// all in kSteps steps in a row.
class Stragglers {
 public:
  static constexpr int64_t kSteps = 20;
  static constexpr double kSlow = 1.2;

  // Adds the seconds of each rank for a step. Returns the ranks that have become stragglers with
  // it.
  std::vector<int> Add(const std::vector<double>& seconds);

 private:
  std::vector<int64_t> slow_;  // steps in a row, by rank
};

// The control of ranks that train together: they poll each other's flags, and find ranks that are
// slow or differ. A null group is one rank alone.
class RankControl {
 public:
  explicit RankControl(Group* group) : group_(group) {}

  Group* group() const { return group_; }
  bool first() const { return IsFirst(group_); }

  // The flags that any rank raises. All ranks call it.
  RankFlags Poll(const RankFlags& mine) const;
  // The seconds in which each rank computed. The first rank warns of stragglers.
  std::vector<double> GatherSeconds(double seconds);
  // The seconds for which this rank has waited for others so far.
  double seconds_waited() const { return group_ == nullptr ? 0 : group_->traffic().seconds_waited; }
  // Throws a kRuntime Error that names a rank whose bytes differ from those of the first rank with
  // the same one of `parts` shards of the model, because a processor or memory is faulty.
  // `checkpoint` names the checkpoint from which the run can continue.
  void RequireSameBytes(const Tensor& weights, int parts, int64_t step,
                        const std::string& checkpoint) const;
  // Sets the progress that the others report if this rank is lost.
  void TellProgress(const std::string& progress) const {
    if (group_ != nullptr) group_->set_progress(progress);
  }

 private:
  Group* group_;
  Stragglers stragglers_;
};

}  // namespace folio
