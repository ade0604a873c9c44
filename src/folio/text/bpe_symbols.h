#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/text/bpe_vocab.h"

namespace folio {

// What the merging of a pretoken works on: the tokens of a vocabulary, by id, and behind them
// symbols that are no tokens. Those are bytes that have no token, and in a vocabulary of characters
// the beginnings of characters, as merging always begins with bytes: first merges put the bytes of
// each character that is a token together, a byte at a time. They are the first by rank, and no two
// of them compete for a byte; so the others begin with characters then, and with the tokens of the
// bytes of all other characters.
struct BpeSymbols {
  // The ids that a symbol which is no token stands for in the end.
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
  size_t tokens = 0;  // those from this one on are no tokens
  std::vector<Ids> others;
  std::array<int32_t, 256> of_byte = {};
  std::vector<BpeMerge> merges;  // by rank
  std::vector<uint32_t> ranks;   // of merges; those of one rank make the same symbol

 private:
  int32_t Add(std::string_view symbol_bytes, const Ids& stands_for);
  void AddMissingBytes(const BpeVocab& vocab);
  void AddCharacters(const BpeVocab& vocab);
  void AddMerges(const BpeVocab& vocab);
};

}  // namespace folio
