#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "folio/term/byte_streams.h"
#include "folio/text/streaming.h"
#include "folio/text/tokenizer.h"

namespace folio {

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
      : out_(out), tokenizer_(tokenizer), replace_(replace), text_(tokenizer) {}

  void Write(std::span<const int32_t> ids);
  void Finish();

 private:
  ByteOutput& out_;
  const Tokenizer& tokenizer_;
  bool replace_;
  StreamingDecoder text_;
};

}  // namespace folio
