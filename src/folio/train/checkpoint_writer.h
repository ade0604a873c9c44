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
#include "folio/train/adamw.h"
#include "folio/train/checkpoints.h"
#include "folio/train/moment_file.h"

namespace folio {

// Whose moments a rank has: with a group, its pieces of them, or of those of its part of a model.
struct MomentShards {
  Group* group = nullptr;  // null for one rank alone
  const Shards* shards = nullptr;
  bool same_files = true;  // all ranks see them, as far as is known
};

// Writes checkpoints while training goes on: takes a copy of what a checkpoint holds and has a
// thread write it, one at a time. Where memory has no room for a copy, training waits instead.
//
// Of several ranks each writes its pieces of the moments, all into one file (moment_file.h), and
// then the first the rest; where they do not see the same files, or have parts of the model, it
// gathers what all have. All call the same functions in the same order, and hear the same.
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
  // Whether this rank still writes its pieces of the one that was begun. As soon as none does, all
  // call FinishPieces.
  bool writes_pieces() const;
  void FinishPieces();
  // Whether this rank knows that the one that was begun is written, so that nobody waits for it.
  bool done() const;
  // What became of the checkpoint that was begun, when it is done; nothing if none was.
  std::optional<Written> Wait();

  const Checkpoints& checkpoints() const { return checkpoints_; }

 private:
  struct Copy;

  bool first() const { return shards_.group == nullptr || shards_.group->first(); }
  bool MakeRoom();
  bool BeginPieces();
  void GatherMoments();
  void GatherWholeModel(bool moments);

  Checkpoints checkpoints_;
  const GptWeights& weights_;
  const AdamW& optimizer_;
  MomentShards shards_;
  bool beside_;
  std::exception_ptr failed_;  // the one that was begun, before its thread
  std::unique_ptr<Copy> copy_;
  std::optional<MomentFile> file_;
  std::vector<float> m_, v_;    // copies of this rank's pieces
  std::function<void()> rest_;  // what the first rank writes when all pieces are there
  std::optional<Written> under_way_;
  double began_ = 0;
  // Last: their end waits for the threads, which read the others.
  std::future<void> pieces_, written_;
};

}  // namespace folio
