#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/corpus/pieces.h"
#include "folio/data/token_file.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Turns pieces into tokens; several threads, each with its number, may use one.
class PieceEncoder {
 public:
  // `first` is the place of the first document, before which there is no end-of-text. All must
  // outlive it.
  PieceEncoder(const Tokenizer& tokenizer, std::span<const PrepareSource> sources,
               const PreparePlace& first, const SpecialRule& rule, TokenWidth width);

  // Replaces what is in `out` by the tokens of the piece as a file holds them, each document but
  // the first behind an end-of-text. Throws a kInput Error that names file, line and column where
  // the tokenizer has no token, or where a special token is that is not allowed.
  void Encode(const PreparePiece& piece, std::vector<std::byte>& out, int thread);

 private:
  struct Scratch {
    std::string bytes;
    std::vector<int32_t> ids;
  };

  void EncodeText(const PrepareSource& source, const PrepareDocument& document,
                  std::vector<int32_t>& ids) const;
  void EncodeOrdinary(const PrepareSource& source, const PrepareDocument& document, size_t begin,
                      size_t end, std::vector<int32_t>& ids) const;

  const Tokenizer& tokenizer_;
  std::span<const PrepareSource> sources_;
  PreparePlace first_;
  SpecialFinder specials_;
  TokenWidth width_;
  std::vector<Scratch> scratch_;  // of each thread
};

}  // namespace folio
