#pragma once

#include <cstdint>
#include <string>

#include "folio/cli/command_line.h"
#include "folio/commands/model_flags.h"
#include "folio/dist/group.h"
#include "folio/eval/perplexity.h"

namespace folio {

// These flags and functions are common to the commands that measure models.

// The flags --dtype, --tokenizer, --load, --backend, --threads and --simd.
struct OpenFlags : ModelFlags {
  void Add(Flags& flags);
  // Joins the ranks that share the work of the command and takes --threads and --simd into effect:
  // before the first model.
  Group& Use(Console& console, const std::string& command) const;
};

// The flags --context, --stride, --max-tokens, --batch, --special and --field.
class WindowFlags {
 public:
  void Add(Flags& flags);
  // For a model of so many positions. Throws a kUsage Error where the flags do not fit it.
  ReadingOptions Options(int64_t n_positions) const;
  TextOptions texts() const { return {.field = field_}; }

 private:
  int64_t context_ = 0, stride_ = 0, batch_ = 0, max_tokens_ = 0;
  std::string special_ = "raise", field_ = "text";
};

// Tokens that run at once: `batch` windows of `context`, or with 0 about 2048.
int64_t BatchPositions(int64_t batch, int64_t context);

// Throws a kUsage Error unless all ranks measure the same: this model, with `what` else tells a
// measurement from another.
void RequireSameModel(Group& group, const OpenedModel& model, const std::string& what);

// Throws a kUsage Error where a file that grows while it is made cannot be: "-", a directory; and a
// kRuntime Error where its directory cannot be written to. "" asks for none.
void RequireFileName(const std::string& flag, const std::string& path);

// The texts to measure on; says what was left out of directories. Throws a kInput Error where there
// is a text and no `model` with a tokenizer.
std::vector<MeasuredText> FindTexts(const std::vector<std::string>& paths,
                                    const TextOptions& options, const OpenedModel& model,
                                    Console& console);

// A bar, and notes on standard error: at once, where it takes longer than a minute, how long. Must
// outlive what it is given to.
class MeasureReport {
 public:
  // `max_tokens`: whether the command has such a flag, for that note.
  MeasureReport(const Context& context, bool max_tokens);
  const MeasureHooks& hooks() const { return hooks_; }
  void Finish() { progress_.Finish(); }

 private:
  void Show(const MeasureProgress& progress);
  void TellHowLong(const MeasureProgress& progress);

  Console& console_;
  bool max_tokens_, told_ = false;
  Progress progress_;
  RateMeter rate_;
  double last_seconds_;
  int64_t last_done_ = 0, last_tokens_ = 0;
  double tokens_per_second_ = 0;
  MeasureHooks hooks_;
};

}  // namespace folio
