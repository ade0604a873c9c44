#pragma once

#include <cstdint>
#include <optional>

namespace folio {

// Mean losses in nats per token, on training data and on held-out data.
struct Evaluation {
  double train_loss = 0;
  double val_loss = 0;
};

// What a run of the trainer came to.
struct TrainResult {
  int64_t step = 0;  // updates done
  int64_t tokens = 0;
  double seconds = 0;
  bool stopped = false;                       // by request, before max_steps
  std::optional<Evaluation> evaluation = {};  // the last one, at `step`
  std::optional<double> best_val_loss = {};
  int64_t best_step = 0;
};

}  // namespace folio
