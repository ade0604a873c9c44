#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/decompress.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "folio/term/console.h"
#include "folio/text/special_tokens.h"
#include "folio/text/streaming.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Input read from beginning to end: a file, a pipe, standard input or a string. Not thread-safe.
class ByteInput {
 public:
  // `path` "-" is standard input. Throws a kInput Error if it cannot be read.
  explicit ByteInput(const std::string& path);
  // The bytes of `text`, which messages call `name`.
  static ByteInput FromText(std::string text, std::string name);
  // An input of the bytes that `read` returns, like a pipe.
  static ByteInput FromReader(ReadBytes read, std::string name);
  ByteInput(ByteInput&&) = default;

  const std::string& name() const { return name_; }
  // Returns true if the whole input is available and can be read again.
  bool again() const { return again_; }
  // Goes back to the start of reading. REQUIRES: again().
  void Rewind();

  // Appends up to `wanted` bytes to `out` and returns how many, 0 only at the end: for a pipe those
  // that are available, after waiting for some. Throws Stopped (signals.h) on request, and a kInput
  // Error.
  size_t Read(std::string& out, size_t wanted);

 private:
  ByteInput() = default;
  // Returns a useful number of bytes to make room for.
  size_t PieceToRead() const;

  std::string name_;
  internal::FileDescriptor file_{-1};  // -1 for a text
  int fd_ = -1;
  bool again_ = true;
  long long begin_ = 0;  // offset in the file where reading began
  ReadBytes reader_;
  std::string text_;
  size_t at_ = 0;  // in text_
};

// The longest line that is read as a whole, except in documents for data sets.
inline constexpr int64_t kLongestLine = int64_t{1} << 27;
// Throws a kInput Error if a line has more bytes than is plausible. `name` is the input's.
void RequireLineEnds(int64_t bytes, const std::string& name, int64_t longest = kLongestLine);

// Returns true if standard input is a pipe or a file, not a terminal or nothing.
bool InputIsPiped();
// Returns true if standard input is a terminal.
bool InputIsTerminal();

// A command's output: standard output, or a file that appears when complete. Buffers small pieces.
class ByteOutput {
 public:
  // `path` "" or "-" is standard output.
  ByteOutput(Console& console, const std::string& path);
  ~ByteOutput();

  // Returns true if the bytes go to a terminal.
  bool to_terminal() const;
  void Write(std::string_view bytes);
  // Writes the buffered bytes, to a terminal in whole characters.
  void Flush();
  // Flushes and puts the file in place. Without it no file appears.
  void Finish();

 private:
  void Send(std::string_view bytes);

  Console& console_;
  std::unique_ptr<AtomicFile> file_;
  std::string held_;
};

// The format of token ids in a file.
enum class IdFormat {
  kText,  // numbers, separated by spaces, in one line
  kJson,  // {"ids":[1,2]}
  kU16,   // little-endian, no header
  kU32,
};

// "text", "u16", "u32", or "bin": nanoGPT's files, u16 if all ids of the tokenizer fit and else
// u32. Throws a kUsage Error for u16 if they do not fit.
IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer);

// Writes ids in one of the formats, piece by piece. `out` must outlive it.
class IdWriter {
 public:
  // Throws a kUsage Error for binary formats on a terminal.
  IdWriter(ByteOutput& out, IdFormat format);

  void Write(std::span<const int32_t> ids);
  // Call once, at the end. Does not finish `out`.
  void Finish();

 private:
  ByteOutput& out_;
  IdFormat format_;
  bool first_ = true;
};

using OnIds = std::function<void(std::span<const int32_t> ids)>;

// Passes the ids of `input` on in pieces. kText accepts numbers separated by white space and
// commas, or a JSON object with "ids", or a JSON array. Throws a kInput Error that says where
// something is no id.
void ReadIds(ByteInput& input, IdFormat format, const OnIds& on_ids);

// Writes the bytes of tokens; with `replace` as UTF-8, with U+FFFD for invalid bytes.
class BytesWriter {
 public:
  BytesWriter(ByteOutput& out, const Tokenizer& tokenizer, bool replace)
      : out_(out),
        tokenizer_(tokenizer),
        replace_(replace),
        strip_(tokenizer.strips_space()),
        text_(tokenizer) {}

  void Write(std::span<const int32_t> ids);
  void Finish() { out_.Write(text_.Flush()); }

 private:
  ByteOutput& out_;
  const Tokenizer& tokenizer_;
  bool replace_;
  bool strip_;  // remove a space at the beginning of the text
  StreamingDecoder text_;
};

// Throws the error of SpecialNotAllowed, with the options of the commands as help, for the first
// disallowed special token. `position` is where `text` begins in `where`.
void CheckSpecials(const SpecialFinder& specials, std::string_view text, std::string_view where,
                   TextPosition position = {});

// Receives the next bytes of a text, and the next ids, which may belong to other bytes.
using OnEncoded = std::function<void(std::string_view text, std::span<const int32_t> ids)>;

// Encodes all of `input`, with the ids of Tokenizer::Encode, in bounded memory. An input that can
// be read again is encoded by all threads. A disallowed special token is an error before the first
// call of `on_encoded`; from a pipe only within the first kHeldBack bytes.
inline constexpr size_t kHeldBack = size_t{1} << 25;
void EncodeInput(const Tokenizer& tokenizer, ByteInput& input, const SpecialRule& rule,
                 const OnEncoded& on_encoded);

// Appends the ids of the beginning of `text`, up to a place where it can be cut (all of it if
// `at_end`), and returns that place. Allowed special tokens become their token; others are ordinary
// text.
size_t EncodeChunk(const Tokenizer& tokenizer, const SpecialFinder& specials, std::string_view text,
                   bool at_end, std::string_view where, std::vector<int32_t>& ids);

// Maps a line to a new one, both without line breaks; `number` counts from 1. Called from several
// threads. May throw.
using MapLine = std::function<std::string(std::string_view line, int64_t number)>;

// Writes map(line) and a line break for each line of `input`, in order and without delay. An
// exception of map is thrown after the lines before have been written.
void MapLines(ByteInput& input, ByteOutput& out, const MapLine& map);

// {"text":...} or {"hex":...} becomes {"ids":[...]}. `name` is the input's, for errors.
MapLine EncodeJsonLine(const Tokenizer& tokenizer, const SpecialRule& rule,
                       const std::string& name);
// {"ids":[...]} becomes {"text":...} or {"hex":...}.
enum class JsonBytes {
  kTextIfUtf8,  // hex if the bytes are not UTF-8
  kHex,
  kReplace,  // text, with U+FFFD for what is not UTF-8
};
MapLine DecodeJsonLine(const Tokenizer& tokenizer, JsonBytes how, const std::string& name);

// The object for one line.
std::string BytesJson(std::string_view bytes, JsonBytes how);
// "48656c"
std::string HexDigits(std::string_view bytes);

}  // namespace folio
