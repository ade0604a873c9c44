#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "folio/corpus/piece_window.h"
#include "folio/corpus/pieces.h"
#include "folio/text/char_tokenizer.h"

namespace folio {

// What reading all text once tells.
struct PreparePlan {
  int64_t units = 0;  // characters, or bytes, of all documents
  int64_t documents = 0;
  int64_t text_bytes = 0;  // of all documents
  PreparePlace first;      // of the first document
  PrepareSplit split;
};

// Reads all sources, which the ranks have opened. `characters`, if not null, gets all text, in
// order, and this rank reads it alone. The split comes behind the
// first int((1 - val_fraction) * units) units; there is none if that is all. done(place) says how
// far it is. Throws a kInput Error if there would be nothing to train on.
PreparePlan MakePreparePlan(std::span<const PrepareSource> sources, double val_fraction,
                            PrepareUnit unit, CharSetBuilder* characters, const WindowSizes& sizes,
                            PieceRanks& ranks,
                            const std::function<void(const PreparePlace&)>& done);

}  // namespace folio
