#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace folio {

// GPT-2's printable names of the 256 bytes, under which vocabulary files write tokens: a byte that
// Latin-1 prints (21-7E, A1-AC, AE-FF) is named by itself, the other 68, in order, by U+0100 to
// U+0143. A space is named Ġ, a line feed Ċ.

// The bytes in the order of GPT-2's ids: of first its printable ones, then the others.
const std::array<uint8_t, 256>& Gpt2ByteOrder();

// Appends the names of the bytes, in UTF-8.
void AppendByteNames(std::string_view bytes, std::string& out);
std::string ByteNames(std::string_view bytes);

// Appends the bytes that `names` names. False, with `bytes` as it was, where something is not the
// name of a byte.
bool AppendNamedBytes(std::string_view names, std::string& bytes);

}  // namespace folio
