#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace folio {

// Mean losses in nats per token, on training data and on held-out data.
struct Evaluation {
  double train_loss = 0;
  double val_loss = 0;
};

// The result of a run of the trainer.
struct TrainResult {
  int64_t step = 0;  // updates done
  int64_t tokens = 0;
  double seconds = 0;
  bool stopped = false;  // before max_steps
  // The reason why it ended before max_steps: "patience", "max_tokens", "max_time"; "" by request.
  std::string ended_by = {};
  int64_t skipped = 0;                        // steps without an update, over all parts of the run
  int64_t rollbacks = 0;                      // how often it went back to a checkpoint
  std::optional<Evaluation> evaluation = {};  // the last one, at `step`
  std::optional<double> best_val_loss = {};
  int64_t best_step = 0;
};

}  // namespace folio
