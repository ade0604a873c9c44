#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/corpus/pieces.h"
#include "folio/corpus/text_files.h"
#include "folio/text/char_tokenizer.h"

namespace folio {

// The result of reading all text once.
struct PreparePlan {
  int64_t units = 0;  // characters, or bytes, of all documents
  int64_t documents = 0;
  int64_t text_bytes = 0;  // of all documents
  PreparePlace first;      // of the first document
  std::vector<PrepareSplit> splits = {};

  // The number of blocks of held-out text.
  int64_t blocks() const { return (std::ssize(splits) + 1) / 2; }
};

// Makes the plan from the counts of consecutive pieces: adds them up, and finds where held-out text
// begins and ends.
class PlanMaker {
 public:
  // All arguments must outlive it. `characters`, if not null, gets all text.
  PlanMaker(std::span<const PrepareSource> sources, PrepareUnit unit, CharSetBuilder* characters)
      : sources_(sources), unit_(unit), characters_(characters), units_of_(sources.size()) {}

  void Take(const PreparePiece& piece, const TextCounts& counts, PreparePlan& plan);

  // Returns the splits that divide all `units` alternately into training text, `train` units in
  // all, and held-out text. If there are several blocks a split is moved: to the nearer end of the
  // document that it cuts, if that has no more units than a block, or else to the end of a line.
  // Reads each piece that is cut by splits once.
  std::vector<PrepareSplit> FindAll(int64_t units, int64_t train, bool spread) const;

 private:
  struct Counted {
    PreparePiece piece;
    int64_t before = 0;  // units in earlier pieces
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
