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
