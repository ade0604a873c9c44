#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/dist/group.h"
#include "folio/dist/shards.h"
#include "folio/model/params.h"
#include "folio/train/checkpoints.h"
#include "folio/train/optimizer.h"
#include "folio/train/optimizer_file.h"

namespace folio {

// The elements of the optimizer's state that a rank has: with a group its pieces of the model's, or
// of those of its shard of the model.
struct OptimizerShards {
  Group* group = nullptr;  // null for one rank alone
  const Shards* shards = nullptr;
  bool same_files = true;  // all ranks see them, as far as is known
};

// Writes checkpoints while training goes on: takes a copy of what a checkpoint holds and has a
// thread write it, one at a time. Where memory has no room for a copy, training waits instead.
//
// Each of several ranks writes its pieces of the optimizer's state, all into one file
// (optimizer_file.h), and then the first the rest; where they do not see the same files, or have
// shards of the model, it gathers what all have. All call the same functions in the same order, and
// hear the same.
class CheckpointWriter {
 public:
  // The outcome of a checkpoint.
  struct Written {
    int64_t step = 0;
    bool best = false, last = false;
    double seconds = 0;             // from its beginning to here
    std::exception_ptr error = {};  // null: it is there
  };

  // All must outlive it. `beside` false: no copies, for those who measure or test that.
  CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights, const Optimizer& optimizer,
                   const OptimizerShards& shards = {}, bool beside = true);
  // Waits for the thread.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Begins to write RUN/best, RUN/last or both (Checkpoints::Write). REQUIRES: not busy.
  void Begin(const TrainState& state, bool best, bool last, int64_t previous);
  bool busy() const { return under_way_.has_value(); }
  // Returns whether this rank still writes its pieces of the checkpoint that was begun. As soon as
  // no rank does, all call FinishPieces.
  bool writes_pieces() const;
  void FinishPieces();
  // Returns whether this rank knows that the checkpoint that was begun is written, so that nobody
  // waits for it.
  bool done() const;
  // The outcome of the checkpoint that was begun, when it is done; nothing if none was.
  std::optional<Written> Wait();

  const Checkpoints& checkpoints() const { return checkpoints_; }

 private:
  struct Copy;

  bool first() const { return shards_.group == nullptr || shards_.group->first(); }
  bool MakeRoom();
  bool BeginPieces();
  void GatherState();
  void GatherWholeModel(bool state);

  Checkpoints checkpoints_;
  const GptWeights& weights_;
  const Optimizer& optimizer_;
  OptimizerShards shards_;
  bool beside_;
  std::exception_ptr failed_;  // the one that was begun, before its thread
  std::unique_ptr<Copy> copy_;
  std::optional<SharedOptimizerFile> file_;
  std::vector<std::vector<float>> own_state_;  // copies of this rank's pieces
  std::function<void()> rest_;  // what the first rank writes when all pieces are there
  std::optional<Written> under_way_;
  double began_ = 0;
  // Last: their end waits for the threads, which read the others.
  std::future<void> pieces_, written_;
};

}  // namespace folio
