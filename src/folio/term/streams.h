#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/byte_input.h"
#include "folio/io/file.h"
#include "folio/term/console.h"
#include "folio/text/special_tokens.h"
#include "folio/text/streaming.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A command's result goes to standard output, or into a file that appears when it is whole.
// Collects small pieces.
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

// The function that makes a new line of one, both without line breaks; `number` counts from 1.
// Called from several threads. May throw.
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
