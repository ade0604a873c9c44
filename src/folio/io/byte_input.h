#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "folio/io/decompress.h"
#include "folio/io/posix.h"

namespace folio {

// The input of a command, read from the beginning to the end: a file, a pipe, standard input or a
// string. One thread at a time may use it.
class ByteInput {
 public:
  // `path` "-" is standard input. Throws a kInput Error if it cannot be read.
  explicit ByteInput(const std::string& path);
  // An input with the bytes of `text`, called `name` in messages.
  static ByteInput FromText(std::string text, std::string name);
  // An input with the bytes that `read` appends, like a pipe.
  static ByteInput FromReader(ReadBytes read, std::string name);
  ByteInput(ByteInput&&) = default;

  const std::string& name() const { return name_; }
  // Returns true if the input can be read again: it is no pipe.
  bool again() const { return again_; }
  // Returns to the place where reading began. REQUIRES: again().
  void Rewind();

  // Appends up to `wanted` bytes to `out` and returns how many, 0 only at the end. Waits for a
  // pipe, and then returns the available bytes. Throws Stopped (signals.h) after a request to stop,
  // and a kInput Error if reading fails.
  size_t Read(std::string& out, size_t wanted);

 private:
  ByteInput() = default;
  // The number of bytes to make room for.
  size_t PieceToRead() const;

  std::string name_;
  internal::FileDescriptor file_{-1};  // none for a text
  int fd_ = -1;
  bool again_ = true;
  long long begin_ = 0;  // offset in the file where reading began
  ReadBytes reader_;
  std::string text_;
  size_t at_ = 0;  // in text_
};

// The longest line that is read as a whole, except for documents of training data.
inline constexpr int64_t kLongestLine = int64_t{1} << 27;
// Throws a kInput Error if a line is longer than that. `name` is the input's.
void RequireLineEnds(int64_t bytes, const std::string& name, int64_t longest = kLongestLine);

// Returns true if standard input is a pipe or a file.
bool InputIsPiped();
// Returns true if standard input is a terminal.
bool InputIsTerminal();

}  // namespace folio
