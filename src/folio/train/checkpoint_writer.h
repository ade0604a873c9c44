#pragma once

#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/dist/group.h"
#include "folio/dist/shards.h"
#include "folio/model/params.h"
#include "folio/train/adamw.h"
#include "folio/train/checkpoints.h"

namespace folio {

// Whose moments a rank has: with a group, its pieces of them.
struct MomentShards {
  Group* group = nullptr;  // null for one rank alone
  const Shards* shards = nullptr;
};

// Writes checkpoints while training goes on: takes a copy of what a checkpoint holds and has a
// thread write it, one at a time. Where memory has no room for a copy, training waits instead. Of
// several ranks the first gathers the moments of all, and writes; all call the same functions in
// the same order, and hear the same.
class CheckpointWriter {
 public:
  // What became of a checkpoint.
  struct Written {
    int64_t step = 0;
    bool best = false, last = false;
    double seconds = 0;             // from its beginning to here
    std::exception_ptr error = {};  // null: it is there
  };

  // All must outlive it. `beside` false: no copies, for those who measure or test that.
  CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights, const AdamW& optimizer,
                   const MomentShards& shards = {}, bool beside = true);
  // Waits for the thread.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Begins to write RUN/best, RUN/last or both (Checkpoints::Write). REQUIRES: not busy.
  void Begin(const TrainState& state, bool best, bool last, int64_t previous);
  bool busy() const { return under_way_.has_value(); }
  // Whether this rank knows that the one that was begun is written, so that nobody waits for it.
  bool done() const;
  // What became of the checkpoint that was begun, when it is done; nothing if none was.
  std::optional<Written> Wait();

  const Checkpoints& checkpoints() const { return checkpoints_; }

 private:
  struct Copy;

  bool first() const { return shards_.group == nullptr || shards_.group->first(); }
  bool MakeRoom();
  void TakeCopy();
  void GatherMoments();
  std::string Outcome();

  Checkpoints checkpoints_;
  const GptWeights& weights_;
  const AdamW& optimizer_;
  MomentShards shards_;
  bool beside_;
  bool no_room_ = false;  // for the one that was begun, at the first rank
  std::unique_ptr<Copy> copy_;
  std::optional<Written> under_way_;
  double began_ = 0;
  std::future<void> written_;  // last: its end waits for the thread, which reads the others
};

}  // namespace folio
