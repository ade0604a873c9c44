#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "folio/io/decompress.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "folio/term/console.h"

namespace folio {

// A command reads its input from the beginning to the end: a file, a pipe, standard input or a
// string. Not made for a second thread.
class ByteInput {
 public:
  // `path` "-" is standard input. Throws a kInput Error if it cannot be read.
  explicit ByteInput(const std::string& path);
  // The bytes of `text`, called `name` in messages.
  static ByteInput FromText(std::string text, std::string name);
  // Makes an input of the bytes that `read` gives, as of a pipe.
  static ByteInput FromReader(ReadBytes read, std::string name);
  ByteInput(ByteInput&&) = default;

  const std::string& name() const { return name_; }
  // Returns whether the input is all there now and can be read again.
  bool again() const { return again_; }
  // Back to where reading began. REQUIRES: again().
  void Rewind();

  // Appends up to `wanted` bytes to `out` and returns how many, 0 at the end only: of a pipe what
  // is there now, after waiting for it. Throws Stopped (signals.h) if that was asked for, and a
  // kInput Error.
  size_t Read(std::string& out, size_t wanted);

 private:
  ByteInput() = default;
  // Returns how many bytes it is worth making room for.
  size_t PieceToRead() const;

  std::string name_;
  std::unique_ptr<internal::FileDescriptor> file_;  // none for a text
  int fd_ = -1;
  bool again_ = true;
  long long begin_ = 0;  // offset in the file where reading began
  ReadBytes reader_;
  std::string text_;
  size_t at_ = 0;  // in text_
};

// Throws a kInput Error where more of a line that must be seen as a whole is held than anybody
// writes: 128 MiB. `name` is the input's.
void RequireLineEnds(std::string_view held, const std::string& name);

// Returns whether standard input is a pipe or a file that somebody put there, and no terminal or
// nothing.
bool InputIsPiped();
// Returns whether somebody types standard input.
bool InputIsTerminal();

// A command's result goes to standard output, or into a file that appears when it is whole.
// Collects small pieces.
class ByteOutput {
 public:
  // `path` "" or "-" is standard output.
  ByteOutput(Console& console, const std::string& path);
  ~ByteOutput();

  // Returns whether a person would see the bytes.
  bool to_terminal() const;
  void Write(std::string_view bytes);
  // Sends out what was written, to a terminal in whole characters.
  void Flush();
  // Flushes, and the file appears. Without it nothing of a file is left.
  void Finish();

 private:
  void WriteHeld(size_t bytes);

  Console& console_;
  std::unique_ptr<AtomicFile> file_;
  std::string held_;
};

}  // namespace folio
