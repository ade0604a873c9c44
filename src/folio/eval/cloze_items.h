#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/eval/windows.h"
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
// it. (White space at the end of the context belongs to the endings.) An empty context stands for
// the token between texts. Text that is longer than `n_positions` loses its beginning. Throws a
// kInput Error for what cannot be encoded and for endings without a token or too long for the
// model.
std::vector<TextWindow> ClozeWindows(const ClozeItem& item, const Tokenizer& tokenizer,
                                     int64_t n_positions);

}  // namespace folio
