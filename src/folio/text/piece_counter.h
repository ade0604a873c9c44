#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"
#include "folio/text/split.h"

namespace folio {

// Distinct pieces, each with how often it occurred.
struct CountedPieces {
  ByteStrings pieces;
  std::vector<int64_t> counts;
};

class PieceTable;

// Counts the pieces of texts on all threads: each thread has a table of its own, and Take adds
// them up.
class PieceCounter {
 public:
  explicit PieceCounter(SplitPattern pattern);
  ~PieceCounter();

  // A whole document, or a part of one that begins and ends where FindCut says.
  void AddText(std::string_view text);
  // Counted so far, repeated ones too.
  int64_t pieces() const;
  // Each distinct piece in exactly one of the parts, whose order and cut depend on the threads.
  // The counter is empty then.
  std::vector<CountedPieces> Take();

 private:
  SplitPattern pattern_;
  std::vector<std::unique_ptr<PieceTable>> tables_;  // by thread
};

}  // namespace folio
