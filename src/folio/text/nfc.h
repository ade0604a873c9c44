#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace folio {

// The composed form of text (NFC, Unicode Standard Annex 15), of Unicode 15.1; forms of characters
// that a version of Unicode has never change in later ones. Bytes that belong to no character stay
// as they are.

// How much of `text` is in that form for certain, up to a place where the rest can be brought into
// it by itself; all of it for most texts, which then need not be changed. Fast for ASCII.
size_t NfcPrefix(std::string_view text);

// The text in that form.
std::string Nfc(std::string_view text);

// True if a character is its own composed form whatever stands before it, and texts can be cut
// before it: their forms, one after the other, are the form of the whole.
bool StaysInNfc(char32_t code);

// The tables as scripts/nfc_table.py writes them, which says what they hold.
std::span<const uint32_t> NfcPairs();
std::span<const uint32_t> NfcRuns();
std::span<const uint32_t> NumeralRuns();

}  // namespace folio
