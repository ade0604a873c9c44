#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace folio {

// Reads a file of lines to which another process appends. An incomplete last line is read when it
// is complete. A missing file has no lines.
class GrowingLines {
 public:
  explicit GrowingLines(std::filesystem::path file) : file_(std::move(file)) {}

  // Returns true if the file was truncated or replaced since it was read; it is then read from its
  // beginning again.
  bool Rewound();
  // Calls take(line) for new complete lines, without their line breaks, until `most` bytes are
  // read. Returns true if there may be more. A line longer than `most` is passed in pieces.
  bool Read(uint64_t most, const std::function<void(std::string_view line)>& take);
  // Skips the present lines.
  void SkipToEnd();
  // Continues at a byte; the rest of a line there counts as a line.
  void SkipTo(uint64_t byte);
  // The bytes that were not read yet, 0 if not known.
  uint64_t left() const;

 private:
  std::filesystem::path file_;
  uint64_t offset_ = 0;  // of the first line that is not read
  bool within_ = false;  // it is inside a line that is too long, not at the beginning of one
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace folio
