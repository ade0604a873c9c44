#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  int64_t rollbacks = 0;                      // how often it returned to a checkpoint
  std::optional<Evaluation> evaluation = {};  // the last one, at `step`
  std::optional<double> first_val_loss = {};  // before the first step, in whichever part of the run
  std::optional<double> best_val_loss = {};
  int64_t best_step = 0;
};

class Json;
class LineFile;

inline constexpr char kMetricsFile[] = "metrics.jsonl";
// The largest log that is read, about four million steps.
inline constexpr uint64_t kMostLogBytes = uint64_t{1} << 30;

// Euclidean norms over trained parameters: first of those outside of the blocks (embeddings, last
// LayerNorm, head), then of each block.
struct LayerNorms {
  std::vector<double> grad, update, weight;  // before clipping; of the step; after the step
};

// One line of metrics.jsonl; a key that is absent was not measured at this step. Losses are in nats
// per token. `loss`, `lr` and `grad_norm` belong to the update that leads from `step` to step + 1;
// the evaluation comes before it.
struct StepMetrics {
  int64_t step = 0;
  std::optional<double> loss = {}, lr = {}, grad_norm = {};
  int64_t tokens = 0;  // trained on so far, this step included
  std::optional<double> tokens_per_second = {};
  double seconds = 0;  // of training and evaluating so far, over all parts of a resumed run
  // Unix time in seconds, to the millisecond, when this was measured; differs between equal runs.
  std::optional<double> time = {};
  std::optional<double> train_eval_loss = {}, val_loss = {};
  std::optional<LayerNorms> layer_norms = {};
  std::vector<double> rank_seconds = {};  // of the step, without waiting; by rank
  // Why the update was skipped, and whose gradient was not finite (health.h); empty if it was made.
  std::string skipped = {}, skipped_parameter = {};
  // "from step 34: ", and why, if the run returned to this step; else empty.
  std::string rolled_back = {};
  // TrainResult::ended_by, in the last line of a run that ended before max_steps; else empty.
  std::string ended_by = {};
};

// Moves damaged lines (after a power cut, or edited) of NAME.jsonl, a file of JSON objects with an
// integer "step", to the end of NAME.damaged.jsonl, with a warning for each. Does nothing if there
// is no such file. Throws a kRuntime Error if it cannot write.
void RepairLines(const std::filesystem::path& file);

// Repairs the lines, and removes the first line of step `end` or later and all lines after it, and
// an incomplete last line.
void CutLines(const std::filesystem::path& file, int64_t end);

// Appends lines to RUN/metrics.jsonl; while the disk is full they wait in memory (LineFile).
class RunLog {
 public:
  // Keeps only the lines of steps before `first_step` (CutLines): a run that was interrupted has
  // written others after its last checkpoint, and perhaps an incomplete line. Throws a kRuntime
  // Error if it cannot write.
  RunLog(const std::filesystem::path& run, int64_t first_step);
  ~RunLog();

  void Write(const StepMetrics& metrics);
  // As LineFile does.
  void Sync();
  void Finish();

 private:
  std::unique_ptr<LineFile> file_;
};

// A number as metrics.jsonl has it; NaN and infinities, which JSON lacks, as strings.
Json MetricJson(double value);

// All complete lines of RUN/metrics.jsonl. Throws a kInput Error if there is no such file, or if
// one of them is not a line of metrics.
std::vector<StepMetrics> ReadRunLog(const std::filesystem::path& run);

}  // namespace folio
