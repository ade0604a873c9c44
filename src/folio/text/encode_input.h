#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "folio/base/utf8.h"
#include "folio/io/byte_input.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Throws the error of SpecialNotAllowed, with the flag that would allow it, for the first
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
// and returns where that is. Allowed special tokens become their token; the others are text.
size_t EncodeChunk(const Tokenizer& tokenizer, const SpecialFinder& specials, std::string_view text,
                   bool at_end, std::string_view where, std::vector<int32_t>& ids);

}  // namespace folio
