#include "folio/run/run_recorder.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/infer/text_writer.h"
#include "folio/io/json.h"
#include "folio/run/run_directory.h"

namespace folio {
namespace {

// In Markdown, which TensorBoard shows: so that line breaks stay.
std::string AsCodeBlock(const std::string& text) {
  return "    " + Join(Split(text, '\n'), "\n    ");
}

}  // namespace

RunRecorder::RunRecorder(const RunConfig& config, std::filesystem::path run, Backend& backend,
                         const Tokenizer* tokenizer, int64_t first_step)
    : config_(config), run_(std::move(run)), backend_(backend), tokenizer_(tokenizer) {
  // A sample of a step comes before the checkpoint of that step.
  CutLines(run_ / kSamplesFile, first_step + 1);
  if (!config_.log.tensorboard) return;
  tensorboard_.emplace(run_ / kTensorBoardDir);
  if (first_step > 0) tensorboard_->Restart(first_step, WallSeconds());
}

// Training is worth more than its event files: without room they end, and it goes on.
template <class F>
void RunRecorder::ToTensorBoard(const F& write) {
  if (!tensorboard_) return;
  try {
    write(*tensorboard_);
  } catch (const Error& error) {
    LogWarning(fmt::format("no more events for TensorBoard: {}: {}", error.what(), error.cause()));
    tensorboard_.reset();
  }
}

void RunRecorder::Record(const StepMetrics& m) {
  ToTensorBoard([&](TensorBoardWriter& events) { RecordInto(events, m); });
}

void RunRecorder::RecordInto(TensorBoardWriter& events, const StepMetrics& m) {
  const double now = WallSeconds();
  const auto put = [&](const char* tag, const std::optional<double>& value) {
    if (value) events.Scalar(tag, m.step, *value, now);
  };
  put("loss", m.loss);
  put("lr", m.lr);
  put("grad_norm", m.grad_norm);
  put("tokens_per_second", m.tokens_per_second);
  put("train_eval_loss", m.train_eval_loss);
  put("val_loss", m.val_loss);
  if (m.val_loss) events.Flush();
}

std::string RunRecorder::Sample(int64_t step, const GptWeights& weights) {
  const std::string& begin = config_.log.sample_prompt;
  Generator generator(backend_, weights);
  const GenerateOptions options{.sampling = {.seed = static_cast<uint64_t>(config_.train.seed)},
                                .max_tokens = config_.log.sample_tokens,
                                .truncate = true};
  const WrittenText written =
      WriteText(generator, *tokenizer_, PromptTokens(*tokenizer_, begin), options,
                static_cast<uint64_t>(step), [](auto) { return true; });
  const Json line = {
      {"event", "sample"}, {"step", step}, {"prompt", begin}, {"text", written.text}};
  if (samples_ == nullptr) samples_ = std::make_unique<LineFile>(run_ / kSamplesFile);
  samples_->Write(line.dump() + "\n");
  samples_->Sync();  // the checkpoint that comes after it knows nothing of samples
  ToTensorBoard([&](TensorBoardWriter& events) {
    events.Text("sample", step, AsCodeBlock(begin + written.text), WallSeconds());
    events.Flush();
  });
  return written.text;
}

void RunRecorder::End(const TrainResult& result) {
  if (result.evaluation) {
    Record({.step = result.step,
            .train_eval_loss = result.evaluation->train_loss,
            .val_loss = result.evaluation->val_loss});
  }
  ToTensorBoard([](TensorBoardWriter& events) { events.Flush(); });
  if (samples_ != nullptr) samples_->Finish();
}

}  // namespace folio
