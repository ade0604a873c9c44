#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/text/pretoken_counter.h"

namespace folio {

// The distinct pretokens as one row of symbols, in which pairs are merged where they stand. Each
// byte of each pretoken has a position. A symbol of n bytes is written at the first and at the last
// of its n positions, and nothing that is a symbol between them; so both neighbours of a symbol are
// found without links. kEdge stands before, between and behind the pretokens.
class TrainingText {
 public:
  static constexpr int32_t kEdge = -1;
  static constexpr int32_t kInside = -2;

  // `symbols` are those of the 256 bytes. Pretokens of a single byte, which have no pairs, are left
  // out. Frees `parts` on the way. Throws a kResource Error if there are 2^32 positions or more.
  TrainingText(std::vector<CountedPretokens> parts, const std::array<int32_t, 256>& symbols);

  std::span<const int32_t> row() const { return row_; }
  int32_t* symbols() { return row_.data(); }
  // Returns how often the pretoken at this position occurred.
  int64_t Weight(uint32_t position) const {
    size_t run = run_of_[position / kBlock];
    while (runs_[run].end <= position) ++run;
    return runs_[run].weight;
  }

 private:
  // Pretokens that occurred equally often, most frequent first.
  struct Run {
    size_t end;
    int64_t weight;
  };
  static constexpr size_t kBlock = 64;

  std::vector<int32_t> row_;
  std::vector<Run> runs_;
  std::vector<uint32_t> run_of_;  // of the first position of each block of kBlock
};

}  // namespace folio
