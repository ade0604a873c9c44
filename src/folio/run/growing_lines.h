#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace folio {

// A file of lines that another process appends to, read as it grows. What is torn at its end comes
// when it is whole. A file that is not there has no lines.
class GrowingLines {
 public:
  explicit GrowingLines(std::filesystem::path file) : file_(std::move(file)) {}

  // Returns whether what was read is not the beginning of the file any more: it was cut, or
  // replaced. It is then read from its beginning again.
  bool Rewound();
  // Calls take(line) for the whole lines that are new, without their ends, until `most` bytes are
  // read. Returns whether there may be more. Of a line longer than `most` it gets pieces.
  bool Read(uint64_t most, const std::function<void(std::string_view line)>& take);
  // Leaves out what is there now.
  void SkipToEnd();
  // Goes on at a byte; what is left of a line there is given to `take` as one.
  void SkipTo(uint64_t byte);
  // Bytes that were not read yet, as far as is known.
  uint64_t left() const;

 private:
  std::filesystem::path file_;
  uint64_t offset_ = 0;  // of the first line that is not read
  bool within_ = false;  // it is no beginning of a line, but in the midst of one that is too long
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace folio
