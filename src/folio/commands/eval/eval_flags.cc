#include "folio/commands/eval/eval_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/cli/program.h"
#include "folio/dist/group.h"
#include "folio/eval/result_file.h"
#include "folio/io/file.h"

namespace folio {

void OpenFlags::Add(Flags& flags) {
  AddDtype(flags);
  AddTokenizerFlag(flags, &tokenizer, /*required=*/false);
  AddLoad(flags);
  AddCompute(flags);
}

Group& OpenFlags::Use(Console& console, const std::string& command) const {
  Group& group = JoinRanks(console, command);
  compute.Use();
  RequireSameSimd(group);
  return group;
}

void WindowFlags::Add(Flags& flags) {
  flags.Value(
      Field{"context", &context_, "tokens of a window; 0 for as many as the model reads", 0, 1e9});
  flags.Value(Field{"stride", &stride_,
                    "tokens from one window to the next; 0 for half a window. With fewer, tokens "
                    "have more before them, and it takes longer",
                    0, 1e9});
  flags.Value(Field{"max-tokens", &max_tokens_,
                    "read no more of the texts than so many tokens at their beginning; 0: all", 0,
                    1e15});
  flags.Value(Field{"batch", &batch_, "windows that run at once; 0 for about 2048 tokens", 0, 1e6});
  AddSpecialFlag(flags, &special_);
  flags.Value(Field{"field", &field_, "of JSON lines: the member that holds the text"});
}

ReadingOptions WindowFlags::Options(int64_t n_positions) const {
  if (max_tokens_ == 1) {
    throw UsageError("--max-tokens 1: nothing to predict",
                     "the first token of a text is not predicted", "give 2 or more, or 0 for all");
  }
  ReadingOptions options{.shape = ChooseWindows(context_, stride_, n_positions),
                         .max_tokens = max_tokens_,
                         .text = texts(),
                         .special = SpecialRule::Named(special_)};
  options.positions = BatchPositions(batch_, options.shape.context);
  return options;
}

int64_t BatchPositions(int64_t batch, int64_t context) {
  constexpr int64_t kPositions = 2048;
  return batch > 0 ? batch * context : std::max(kPositions, context);
}

void RequireSameModel(Group& group, const OpenedModel& model, const std::string& what) {
  if (group.alone()) return;
  RequireSame(group, "models", fmt::format("{}\n{}", ModelFingerprint(model), what));
}

void RequireFileName(const std::string& flag, const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return;
  if (path != "-" && !std::filesystem::is_directory(path, ignored)) return RequireParentOf(path);
  throw UsageError(
      fmt::format("{} {}: {}", flag, path,
                  path == "-" ? "it does not go to standard output" : "is a directory"),
      {}, "name a file");
}

std::vector<MeasuredText> FindTexts(const std::vector<std::string>& paths,
                                    const TextOptions& options, const OpenedModel& model,
                                    Console& console) {
  MeasuredTexts found = FindMeasuredTexts(paths, options);
  if (!found.left_out.empty()) console.Note(found.left_out);
  for (const MeasuredText& text : found.texts) {
    if (!text.data_set) model.RequireTokenizer(", or name it with --tokenizer");
  }
  return std::move(found.texts);
}

MeasureReport::MeasureReport(const Context& context, bool max_tokens)
    : console_(context.console),
      max_tokens_(max_tokens),
      progress_(context.console, context.progress_mode),
      last_seconds_(SteadySeconds()) {
  hooks_.on_progress = [this](const MeasureProgress& progress) { Show(progress); };
  hooks_.on_note = [&console = context.console](const std::string& note) { console.Note(note); };
}

void MeasureReport::Show(const MeasureProgress& progress) {
  const double now = SteadySeconds(), seconds = now - last_seconds_;
  rate_.Add(static_cast<double>(progress.done - last_done_), seconds);
  if (seconds > 0) {
    tokens_per_second_ = static_cast<double>(progress.tokens - last_tokens_) / seconds;
  }
  last_seconds_ = now;
  last_done_ = progress.done;
  last_tokens_ = progress.tokens;
  TellHowLong(progress);
  if (!progress_.Due()) return;
  ProgressState state{
      .unit = progress.unit, .done = progress.done, .total = progress.total, .fields = {}};
  if (progress.nats_per_token > 0) {
    const std::string perplexity = fmt::format("{:.4f}", std::exp(progress.nats_per_token));
    state.fields.push_back({"perplexity", perplexity, "perplexity " + perplexity});
  }
  const std::string speed = fmt::format("{:.0f}", tokens_per_second_);
  state.fields.push_back({"tokens_per_second", speed, speed + " tok/s"});
  if (progress.total > 0 && rate_.known()) {
    const double eta = rate_.Eta(static_cast<double>(progress.total - progress.done));
    state.fields.push_back({"eta_seconds", fmt::format("{:.0f}", eta), "eta " + HumanSeconds(eta)});
  }
  progress_.Show(state);
}

void MeasureReport::TellHowLong(const MeasureProgress& progress) {
  constexpr double kLong = 60;
  if (told_ || progress.total == 0 || !rate_.known()) return;
  told_ = true;
  const double seconds = rate_.Eta(static_cast<double>(progress.total - progress.done));
  if (seconds < kLong) return;
  std::string note = fmt::format("this takes about {}", HumanSeconds(seconds));
  if (max_tokens_) {
    // A minute's, one digit of them.
    const double tokens = tokens_per_second_ * kLong,
                 unit = std::pow(10, std::floor(std::log10(tokens)));
    note += fmt::format("; --max-tokens {:.0f} measures the beginning alone, in about a minute",
                        std::max(2.0, std::floor(tokens / unit) * unit));
  }
  progress_.Finish();
  console_.Note(note);
}

}  // namespace folio
