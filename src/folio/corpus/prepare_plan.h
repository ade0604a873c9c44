#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "folio/corpus/piece_ranks.h"
#include "folio/corpus/pieces.h"
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

// The share of text that is held out: `fraction` of it, at its end or spread over it.
struct HeldOut {
  double fraction = 0;
  bool spread = false;
};

// Reads all sources, which the ranks have opened. `characters`, if not null, gets all text, in
// order, and this rank reads it alone. done(place) says how far it is. Throws a kInput Error if
// there would be nothing to train on.
//
// int((1 - fraction) * units) units are to train on; no split if that is all. At the end there is
// one split, behind so many units. Spread there are up to 64 blocks of held-out text, of 512
// units at least, each behind as much training text. They begin and end with documents, where
// these are not longer than a block, or else with lines, if one ends near. A text that is too short
// for two has its end held out.
PreparePlan MakePreparePlan(std::span<const PrepareSource> sources, const HeldOut& held_out,
                            PrepareUnit unit, CharSetBuilder* characters, const WindowSizes& sizes,
                            PieceRanks& ranks,
                            const std::function<void(const PreparePlace&)>& done);

}  // namespace folio
