#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/text/bpe_vocab.h"

namespace folio {

// The symbols that are merged in a pretoken: the tokens of a vocabulary, by id, and behind them
// symbols that are no tokens. These are bytes that have no token, and in a vocabulary of characters
// the beginnings of characters: merging always begins with bytes, and the first merges join the
// bytes of each character that is a token, one byte at a time. They have the lowest ranks, and no
// two of them compete for a byte; so the remaining merges begin with characters, and with the byte
// tokens of all other characters.
struct BpeSymbols {
  // The ids that replace a symbol which is no token.
  struct Ids {
    std::array<int32_t, 3> ids = {};
    uint32_t count = 0;
  };

  // `vocab` must have passed CheckBpeVocab.
  explicit BpeSymbols(const BpeVocab& vocab);

  std::span<const int32_t> StandsFor(size_t symbol) const {
    const Ids& found = others[symbol - tokens];
    return {found.ids.data(), found.count};
  }

  ByteStrings bytes;  // of each symbol
  size_t tokens = 0;  // symbols from here on are no tokens
  std::vector<Ids> others;
  std::array<int32_t, 256> of_byte = {};
  std::vector<BpeMerge> merges;  // by rank
  std::vector<uint32_t> ranks;   // of merges; merges of one rank make the same symbol

 private:
  int32_t Add(std::string_view symbol_bytes, const Ids& stands_for);
  void AddMissingBytes(const BpeVocab& vocab);
  void AddCharacters(const BpeVocab& vocab);
  void AddMerges(const BpeVocab& vocab);
};

}  // namespace folio
