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
  int64_t rollbacks = 0;                      // how often it went back to a checkpoint
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

// Euclidean norms of what is trained. The first is of all that lies outside of the blocks
// (embeddings, last LayerNorm, head), then one for each block.
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
  // The step's update was left out: why, and whose gradient was at fault (health.h); else empty.
  std::string skipped = {}, skipped_parameter = {};
  // The run went back to this step: "from step 34: ", and why; else empty.
  std::string rolled_back = {};
  // The last line of a run that ended by itself before max_steps says why: TrainResult::ended_by.
  std::string ended_by = {};
};

// Takes the lines that are damaged, by a power cut or an editor, out of a file whose lines are JSON
// objects with an integer "step"; each is put at the end of NAME.damaged.jsonl (of NAME.jsonl) and
// warned of. Nothing if there is no such file. Throws a kRuntime Error if it cannot write.
void RepairLines(const std::filesystem::path& file);

// Repairs the lines, and removes everything from the first line of step `end` or later on, and an
// incomplete line at the end of the file.
void CutLines(const std::filesystem::path& file, int64_t end);

// Appends lines to RUN/metrics.jsonl; while the disk is full they wait in memory (LineFile).
class RunLog {
 public:
  // Keeps the lines of steps before `first_step` (CutLines) and drops the rest: those of a run that
  // was interrupted after its last checkpoint, and a line that a crash tore. A line of `first_step`
  // itself that only evaluates is dropped too. Throws a kRuntime Error if it cannot write.
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

// All whole lines of RUN/metrics.jsonl. Throws a kInput Error if there is no such file or if a line
// other than the last is not what Write makes.
std::vector<StepMetrics> ReadRunLog(const std::filesystem::path& run);

}  // namespace folio
