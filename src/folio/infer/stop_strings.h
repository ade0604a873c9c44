#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// Finds the strings that end a text while it comes, wherever it is cut. The string that is whole
// first ends the text (of several that end at one place the longest), and what could still become
// one is held back, no longer: neither is ever given out. Does not depend on how the text is cut.
class StopStrings {
 public:
  // Throws a kUsage Error for an empty one, and for one that is not UTF-8.
  explicit StopStrings(std::vector<std::string> stops);

  // Returns what can be shown now that `text` has come, whole UTF-8 characters; "" once found().
  std::string Add(std::string_view text);
  // Returns what was held back, for a text that has ended otherwise.
  std::string Flush();
  bool found() const { return found_; }

 private:
  // Bytes at the end of `held_` that begin a string.
  size_t Beginning() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;  // bytes
  std::string held_;
  bool found_ = false;
};

}  // namespace folio
