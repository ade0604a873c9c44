#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace folio {

// The composed form of text (NFC, Unicode Standard Annex 15), of Unicode 15.1; later versions never
// change the form of characters that a version has. Bytes that belong to no character stay
// unchanged.

// The length of the beginning of `text` that is certainly in that form, up to a place from which
// the rest can be normalized separately; the whole text in most cases. Fast for ASCII.
size_t NfcPrefix(std::string_view text);

// The text in that form.
std::string Nfc(std::string_view text);

// True if a character is its own composed form in every context, and texts can be cut before it:
// the forms of both parts, joined, are the form of the whole.
bool StaysInNfc(char32_t code);

// The tables written by scripts/nfc_table.py, which describes them.
std::span<const uint32_t> NfcPairs();
std::span<const uint32_t> NfcRuns();
std::span<const uint32_t> NumeralRuns();

}  // namespace folio
