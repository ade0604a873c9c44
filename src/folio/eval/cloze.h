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

// A multiple-choice question: the ending that best continues the context.
struct ClozeItem {
  std::string context;
  std::vector<std::string> endings;
  size_t label = 0;   // the right one
  std::string where;  // "a.jsonl:7"
};

// The way in which the text of an item is made from the members of its JSON.
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

// Returns a window for each ending, as lm-eval makes it: context and ending with a space between
// are encoded together, and the tokens after as many as the context alone has are the targets.
// (White space at the end of the context belongs to the endings.) Each begins with the tokens that
// the tokenizer puts before texts; if there are none, an empty context is the token between texts.
// Text that is longer than `n_positions` loses its beginning. Throws a kInput Error for text that
// cannot be encoded and for endings without a token or too long for the model.
std::vector<TextWindow> ClozeWindows(const ClozeItem& item, const Tokenizer& tokenizer,
                                     int64_t n_positions);

// The number of items for which a model chooses the right ending.
struct ClozeAccuracy {
  int64_t right = 0, items = 0;

  double part() const { return static_cast<double>(right) / static_cast<double>(items); }
  // The standard error of the mean, from the sample (n - 1), as in lm-eval; NaN for a single item.
  double standard_error() const;
};

// The accuracy for each number by which the ending is chosen: the first with the largest one.
struct ClozeResult {
  ClozeAccuracy acc;        // sum of its tokens' ln p (lm-eval's acc)
  ClozeAccuracy acc_norm;   // that, for each character of the ending (lm-eval's acc_norm)
  ClozeAccuracy acc_token;  // that, for each of its tokens (llm.c's acc_norm)
};

struct ClozeOptions {
  ClozeText text = ClozeText::kAsIs;
  int64_t positions = 0;  // about how many tokens run at once
  TextOptions reading = {};
  // A file with a line of JSON for each item: its number, label, the three chosen endings, and ln
  // p, tokens and characters of each ending. Empty for none. With it an interrupted call continues
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
