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
  internal::FileDescriptor file_{-1};  // none for a text
  int fd_ = -1;
  bool again_ = true;
  long long begin_ = 0;  // offset in the file where reading began
  ReadBytes reader_;
  std::string text_;
  size_t at_ = 0;  // in text_
};

// The longest line that is read as a whole, but for documents that data is made from.
inline constexpr int64_t kLongestLine = int64_t{1} << 27;
// Throws a kInput Error where more of a line is there than anybody writes. `name` is the input's.
void RequireLineEnds(int64_t bytes, const std::string& name, int64_t longest = kLongestLine);

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
  void Send(std::string_view bytes);

  Console& console_;
  std::unique_ptr<AtomicFile> file_;
  std::string held_;
};

// The format of ids in a file.
enum class IdFormat {
  kText,  // numbers, separated by spaces, in one line
  kJson,  // {"ids":[1,2]}
  kU16,   // little-endian, no header
  kU32,
};

// "text", "u16", "u32", or "bin": nanoGPT's files, u16 where all ids of the tokenizer fit and else
// u32. Throws a kUsage Error for u16 where they do not.
IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer);

// Writes ids in one of the formats as they come. `out` must outlive it.
class IdWriter {
 public:
  // Throws a kUsage Error for raw numbers that a person would see.
  IdWriter(ByteOutput& out, IdFormat format);

  void Write(std::span<const int32_t> ids);
  // Once, at the end. Does not finish `out`.
  void Finish();

 private:
  ByteOutput& out_;
  IdFormat format_;
  bool first_ = true;
};

using OnIds = std::function<void(std::span<const int32_t> ids)>;

// Hands on the ids of `input` in pieces. kText takes numbers between white space and commas, or a
// JSON object with "ids", or a JSON array. Throws a kInput Error that names the place of what is no
// id.
void ReadIds(ByteInput& input, IdFormat format, const OnIds& on_ids);

// Writes what ids stand for as it comes: its bytes, or with `replace` UTF-8 with U+FFFD for what is
// none.
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
  bool strip_;  // a space, if the text begins with one
  StreamingDecoder text_;
};

// Throws the error of SpecialNotAllowed, with what the commands can do about it, for the first
// disallowed special token. `position` is where `text` begins in `where`.
void CheckSpecials(const SpecialFinder& specials, std::string_view text, std::string_view where,
                   TextPosition position = {});

// The next bytes of a text, and the next ids, which need not be those of just these bytes.
using OnEncoded = std::function<void(std::string_view text, std::span<const int32_t> ids)>;

// Encodes all of `input`, with the ids of Tokenizer::Encode, in memory that does not grow with it.
// An input that can be read again goes over all threads. A disallowed special token is an error
// before the first call of `on_encoded`; in a pipe only where it is among the first kHeldBack
// bytes.
inline constexpr size_t kHeldBack = size_t{1} << 25;
void EncodeInput(const Tokenizer& tokenizer, ByteInput& input, const SpecialRule& rule,
                 const OnEncoded& on_encoded);

// Appends the ids of the beginning of `text`, up to where it can be cut (all of it if `at_end`),
// and returns where that is. Allowed special tokens become their token; of the others nothing is
// known.
size_t EncodeChunk(const Tokenizer& tokenizer, const SpecialFinder& specials, std::string_view text,
                   bool at_end, std::string_view where, std::vector<int32_t>& ids);

// The function that makes a new line of one, both without line breaks; `number` counts from 1.
// Called from several threads. May throw.
using MapLine = std::function<std::string(std::string_view line, int64_t number)>;

// Writes map(line) and a line break for each line of `input`, in their order and as soon as there
// are any. What map throws comes after the lines before it have been written.
void MapLines(ByteInput& input, ByteOutput& out, const MapLine& map);

// {"text":...} or {"hex":...} becomes {"ids":[...]}. `name` is the input's, for errors.
MapLine EncodeJsonLine(const Tokenizer& tokenizer, const SpecialRule& rule,
                       const std::string& name);
// {"ids":[...]} becomes {"text":...} or {"hex":...}.
enum class JsonBytes {
  kTextIfUtf8,  // hex where the bytes are not UTF-8
  kHex,
  kReplace,  // text, with U+FFFD for what is not UTF-8
};
MapLine DecodeJsonLine(const Tokenizer& tokenizer, JsonBytes how, const std::string& name);

// The object in one line.
std::string BytesJson(std::string_view bytes, JsonBytes how);
// "48656c"
std::string HexDigits(std::string_view bytes);

}  // namespace folio
