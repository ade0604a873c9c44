#pragma once

#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/train/adamw.h"
#include "folio/train/checkpoints.h"

namespace folio {

// Writes checkpoints while training goes on: takes a copy of what a checkpoint holds and has a
// thread write it, one at a time. Where memory has no room for a copy, training waits instead.
class CheckpointWriter {
 public:
  // What became of a checkpoint.
  struct Written {
    int64_t step = 0;
    bool best = false, last = false;
    double seconds = 0;             // from its beginning to here
    std::exception_ptr error = {};  // null: it is there
  };

  // Both must outlive it. `beside` false: no copies, for those who measure or test that.
  CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights, const AdamW& optimizer,
                   bool beside = true);
  // Waits for the thread.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Begins to write RUN/best, RUN/last or both (Checkpoints::Write). REQUIRES: Wait, or Poll after
  // the one before gave what became of it.
  void Begin(const TrainState& state, bool best, bool last, int64_t previous);
  bool busy() const { return under_way_.has_value(); }
  // What became of the checkpoint that was begun, once: nothing as long as it is being written.
  std::optional<Written> Poll();
  // The same, when it is done; nothing if none was begun.
  std::optional<Written> Wait();

  const Checkpoints& checkpoints() const { return checkpoints_; }

 private:
  struct Copy;

  bool MakeRoom();

  Checkpoints checkpoints_;
  const GptWeights& weights_;
  const AdamW& optimizer_;
  bool beside_;
  std::unique_ptr<Copy> copy_;
  std::optional<Written> under_way_;
  double began_ = 0;
  std::future<void> written_;  // last: its end waits for the thread, which reads the others
};

}  // namespace folio
