#include "folio/run/run_recorder.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/data/conversations.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/run/run_directory.h"
#include "folio/text/chat.h"
#include "folio/text/streaming.h"

namespace folio {
namespace {

// Text in Markdown, which TensorBoard shows: so that line breaks stay.
std::string AsCodeBlock(const std::string& text) {
  return "    " + Join(Split(text, '\n'), "\n    ");
}

// Turns as people read them: "user: Who are you?\nassistant: ".
std::string TurnsText(const Tokenizer& tokenizer, const ChatFormat& format,
                      std::span<const int32_t> ids) {
  std::string text;
  StreamingDecoder decoder(tokenizer);
  for (const int32_t id : ids) {
    std::string_view role;
    for (const ChatRole one : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
      if (id == format.RoleToken(one)) role = ChatRoleName(one);
    }
    if (!role.empty()) {
      text += fmt::format("{}: ", role);
    } else if (id == format.end) {
      text += decoder.Flush() + "\n";
    } else {
      text += decoder.Add(id);
    }
  }
  return text;
}

}  // namespace

RunRecorder::RunRecorder(const RunConfig& config, std::filesystem::path run, Backend& backend,
                         const Tokenizer* tokenizer, const Dataset& data, int64_t first_step)
    : config_(config),
      run_(std::move(run)),
      inside_(run_),
      backend_(backend),
      tokenizer_(tokenizer) {
  if (tokenizer_ != nullptr && config_.log.sample_every > 0) MakePrompt(data);
  // A sample of a step comes before the checkpoint of that step.
  CutLines(run_ / kSamplesFile, first_step + 1);
  if (!config_.log.tensorboard) return;
  tensorboard_.emplace(run_ / kTensorBoardDir);
  if (first_step > 0) tensorboard_->Restart(first_step, WallSeconds());
}

void RunRecorder::MakePrompt(const Dataset& data) {
  const std::optional<ChatTokens>& chat = data.info().chat;
  const std::optional<ChatFormat> format = FindChatFormat(*tokenizer_);
  prompt_ = config_.log.sample_prompt;
  if (chat && format) {
    if (prompt_.empty()) {
      prompt_ids_ = FirstQuestion(data.val(), *chat, config_.train.context);
    } else {
      const ChatMessage asked{ChatRole::kUser, prompt_};
      EncodeChat(*tokenizer_, *format, {&asked, 1}, /*ask=*/true, "log.sample_prompt", prompt_ids_);
    }
    prompt_ = TurnsText(*tokenizer_, *format, prompt_ids_);
  }
  if (prompt_ids_.empty()) prompt_ids_ = PromptTokens(*tokenizer_, prompt_);
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
  Generator generator(backend_, weights);
  const GenerateOptions options{.sampling = {.seed = static_cast<uint64_t>(config_.train.seed)},
                                .max_tokens = config_.log.sample_tokens,
                                .truncate = true};
  const GeneratedText written =
      GenerateText(generator, *tokenizer_, prompt_ids_, options, static_cast<uint64_t>(step),
                   [](auto) { return true; });
  const Json line = {
      {"event", "sample"}, {"step", step}, {"prompt", prompt_}, {"text", written.text}};
  if (samples_ == nullptr) samples_ = std::make_unique<LineFile>(run_ / kSamplesFile);
  samples_->Write(line.dump() + "\n");
  samples_->Sync();  // the checkpoint that comes after it knows nothing of samples
  ToTensorBoard([&](TensorBoardWriter& events) {
    events.Text("sample", step, AsCodeBlock(prompt_ + written.text), WallSeconds());
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
