#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/corpus/pieces.h"
#include "folio/corpus/text_files.h"
#include "folio/text/char_tokenizer.h"

namespace folio {

// A plan is made by reading all text once.
struct PreparePlan {
  int64_t units = 0;  // characters, or bytes, of all documents
  int64_t documents = 0;
  int64_t text_bytes = 0;  // of all documents
  PreparePlace first;      // of the first document
  std::vector<PrepareSplit> splits = {};

  // Blocks of held-out text.
  int64_t blocks() const { return (std::ssize(splits) + 1) / 2; }
};

// Makes the plan of what its pieces hold, which come one after the other: adds them up, and finds
// where held-out text begins and ends.
class PlanMaker {
 public:
  // All must outlive it. `characters`, if not null, gets all text.
  PlanMaker(std::span<const PrepareSource> sources, PrepareUnit unit, CharSetBuilder* characters)
      : sources_(sources), unit_(unit), characters_(characters), units_of_(sources.size()) {}

  void Take(const PreparePiece& piece, const TextCounts& counts, PreparePlan& plan);

  // Returns the splits between parts of `train` and of the other of all `units` in turns. Where
  // there are several blocks, a split may be elsewhere: at the nearer end of the document that is
  // cut, if that has no more units than a block, or else at the end of a line. Reads each piece
  // that splits cut once.
  std::vector<PrepareSplit> FindAll(int64_t units, int64_t train, bool spread) const;

 private:
  struct Counted {
    PreparePiece piece;
    int64_t before = 0;  // units of the pieces before it
    int64_t units = 0;
  };

  void FindIn(const Counted& counted, std::span<const int64_t> places, int64_t reach,
              std::vector<PrepareSplit>& splits) const;
  int64_t UnitsBefore(size_t source) const;
  PrepareSplit SplitInside(const PrepareDocument& document, int64_t bytes, int64_t look,
                           const PrepareSource& source) const;

  std::span<const PrepareSource> sources_;
  PrepareUnit unit_;
  CharSetBuilder* characters_;
  std::vector<int64_t> units_of_;  // each source
  std::vector<Counted> pieces_;
};

}  // namespace folio
