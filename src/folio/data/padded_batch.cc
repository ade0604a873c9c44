#include "folio/data/padded_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/data/batch_sampler.h"

namespace folio {

Tensor PaddedBatch::key_mask() const {
  return Tensor(const_cast<uint8_t*>(keys.data()), {B, T});
}

int64_t PaddedBatch::CountTargets() const {
  return std::ranges::count(keys, 1);
}

PaddedBatch PadSequences(std::span<const std::vector<int32_t>> sequences, int64_t T) {
  if (sequences.empty()) throw UsageError("there are no sequences", "", "give at least one");
  int64_t longest = 0;
  for (size_t b = 0; b < sequences.size(); ++b) {
    const int64_t positions = std::ssize(sequences[b]) - 1;
    if (positions < 1) {
      throw UsageError(fmt::format("sequence {} has nothing to predict", b),
                       fmt::format("it has {} tokens", sequences[b].size()),
                       "give two tokens or more");
    }
    longest = std::max(longest, positions);
  }
  if (T > 0 && longest > T) {
    throw UsageError(fmt::format("a sequence needs {} positions, rows have {}", longest, T), "",
                     "shorten it, or use longer rows");
  }
  PaddedBatch padded{.B = std::ssize(sequences), .T = T > 0 ? T : longest};
  const auto size = static_cast<size_t>(padded.B * padded.T);
  padded.inputs.resize(size);
  padded.targets.assign(size, Batch::kNoTarget);
  padded.keys.resize(size);
  for (int64_t b = 0; b < padded.B; ++b) {
    const std::vector<int32_t>& sequence = sequences[static_cast<size_t>(b)];
    const int64_t row = b * padded.T;
    std::copy(sequence.begin(), sequence.end() - 1, padded.inputs.begin() + row);
    std::copy(sequence.begin() + 1, sequence.end(), padded.targets.begin() + row);
    std::fill_n(padded.keys.begin() + row, sequence.size() - 1, uint8_t{1});
  }
  return padded;
}

}  // namespace folio
