#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace folio {

// Words of a text that comes in pieces cut anywhere, as lm-eval counts them for word_perplexity:
// the parts between runs of white space, of which the one before a run at the beginning and the one
// behind a run at the end are empty and count too (Python's len(re.split(r"\s+", text))).
class WordCounter {
 public:
  void Add(std::string_view bytes);
  // The words of the text so far, 1 or more; the counter can then begin another text.
  int64_t Finish();

 private:
  int64_t runs_ = 0;
  bool in_space_ = false;
  std::string held_;  // the beginning of a character
};

}  // namespace folio
