#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/eval/perplexity.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A question of multiple choice: which of the endings goes on with the context.
struct ClozeItem {
  std::string context;
  std::vector<std::string> endings;
  size_t label = 0;   // the right one
  std::string where;  // "a.jsonl:7"
};

// ClozeText says how the text of an item is made of its members.
enum class ClozeText {
  kAsIs,       // the context as it stands
  kHellaSwag,  // as lm-eval writes HellaSwag's: the activity before it, brackets taken out
};

// The item in a line of JSON: {"ctx","endings","label"}, as HellaSwag is published, or
// {"query","choices","gold"}; a label may be a number or its digits. kHellaSwag wants
// "activity_label", "ctx_a" and "ctx_b" for the context. Throws a kInput Error that names the line.
ClozeItem ParseClozeItem(std::string_view line, const std::function<std::string()>& where,
                         ClozeText text);

// Returns a part of an item as lm-eval's hellaswag task makes it: white space at both ends goes, "
// [title]" becomes ". ", other brackets with what is in them go, and then two spaces become one.
std::string CleanHellaSwag(std::string_view text);

// Returns a window for each ending: context and ending with a space between are encoded as one, and
// the tokens beyond as many as the context alone has are the ending's, the targets, as lm-eval does
// it. (White space at the end of the context belongs to the endings.) What the tokenizer puts
// before texts comes before each; where that is nothing an empty context stands for the token
// between texts. Text that is longer than `n_positions` loses what stands first in it. Throws a
// kInput Error for what cannot be encoded and for endings without a token or too long for the
// model.
std::vector<TextWindow> ClozeWindows(const ClozeItem& item, const Tokenizer& tokenizer,
                                     int64_t n_positions);

// ClozeAccuracy counts the items that a model gets right by one way of choosing.
struct ClozeAccuracy {
  int64_t right = 0, items = 0;

  double part() const { return static_cast<double>(right) / static_cast<double>(items); }
  // Returns the standard error of the mean, from the sample (n - 1), as lm-eval gives it; NaN for a
  // single item.
  double standard_error() const;
};

// ClozeResult has the accuracy by each number that an ending may be chosen by, the first of the
// largest.
struct ClozeResult {
  ClozeAccuracy acc;        // sum of its tokens' ln p (lm-eval's acc)
  ClozeAccuracy acc_norm;   // that, for each character of the ending (lm-eval's acc_norm)
  ClozeAccuracy acc_token;  // that, for each of its tokens (llm.c's acc_norm)
};

struct ClozeOptions {
  ClozeText text = ClozeText::kAsIs;
  int64_t positions = 0;  // tokens that run at once, about
  TextOptions reading = {};
  // A line of JSON for each item: its number, label, what was chosen in the three ways, and of each
  // ending ln p, tokens and characters. Empty for none. With it a call that was interrupted goes on
  // where it stopped.
  std::filesystem::path out = {};
  Group* group = nullptr;  // as PerplexityOptions
};

// Measures on the items of a file of JSON lines (of any kind that TextStream reads). No bit of the
// result depends on batches, threads, ranks or interruptions. Throws a kInput Error for a model
// without a tokenizer, a file without items and as ParseClozeItem and ClozeWindows do.
ClozeResult MeasureCloze(const OpenedModel& model, const std::string& file,
                         const ClozeOptions& options, const MeasureHooks& hooks = {});

}  // namespace folio
