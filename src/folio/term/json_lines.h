#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "folio/term/byte_streams.h"
#include "folio/text/tokenizer.h"

namespace folio {

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
