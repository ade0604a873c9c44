#include "folio/data/batch_sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

// Which numbers of kData's streams: random windows and epochs never share one.
constexpr uint64_t kWindowStream = 0;
constexpr uint64_t kOffsetStream = 1;
constexpr uint64_t kFirstRoundStream = 2;
constexpr int kRounds = 6;

void CheckShape(const BatchShape& shape) {
  FOLIO_CHECK(shape.B >= 1 && shape.T >= 1 && shape.micro_batches >= 1, "a batch holds something");
}

// Makes `batch` one of this shape for micro-batch `micro`.
void Prepare(const BatchShape& shape, int64_t micro, Batch& batch) {
  FOLIO_CHECK(micro >= 0 && micro < shape.micro_batches, "no such micro-batch");
  batch.B = shape.B;
  batch.T = shape.T;
  batch.inputs.resize(static_cast<size_t>(shape.B * shape.T));
  batch.targets.resize(static_cast<size_t>(shape.B * shape.T));
}

// `count` positions of row b, the inputs being tokens [start, start + count).
void FillRow(const TokenFile& tokens, int64_t start, int64_t count, int64_t b, Batch& batch) {
  const size_t row = static_cast<size_t>(b * batch.T);
  const size_t length = static_cast<size_t>(count);
  const std::span<int32_t> targets = std::span(batch.targets).subspan(row, length);
  tokens.Read(start + 1, targets);
  tokens.Read(start, std::span(batch.inputs).subspan(row, 1));
  std::copy(targets.begin(), targets.end() - 1,
            batch.inputs.begin() + static_cast<std::ptrdiff_t>(row) + 1);
}

}  // namespace

uint64_t Permute(uint64_t index, uint64_t n, uint64_t seed, uint64_t number) {
  FOLIO_CHECK(index < n, "outside the permutation");
  int half = 1;
  while (half < 32 && (uint64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half;
    uint64_t right = index & mask;
    for (int round = 0; round < kRounds; ++round) {
      const CounterRng rng(seed, RngStream(RngPurpose::kData, number,
                                           kFirstRoundStream + static_cast<uint64_t>(round)));
      const uint64_t mixed = left ^ (rng.Bits(right) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= n);
  return index;
}

WindowSampler::WindowSampler(const TokenFile& tokens, BatchShape shape)
    : tokens_(tokens), shape_(shape) {
  CheckShape(shape);
  if (tokens.size() > shape.T) return;
  throw InputError(fmt::format("{}: shorter than one window", tokens.path()),
                   fmt::format("a context of {} needs {} tokens, the file has {}", shape.T,
                               shape.T + 1, tokens.size()),
                   tokens.size() >= 2
                       ? fmt::format("use --context {} or less, or more text", tokens.size() - 1)
                       : "use more text");
}

void WindowSampler::Fill(uint64_t step, int64_t micro, Batch& batch) {
  Prepare(shape_, micro, batch);
  for (int64_t b = 0; b < shape_.B; ++b) {
    FillRow(tokens_, Start(step, micro * shape_.B + b), shape_.T, b, batch);
  }
}

int64_t RandomWindows::Start(uint64_t step, int64_t sequence) {
  const CounterRng rng(seed_, RngStream(purpose_, step, kWindowStream));
  const uint64_t start =
      rng.Below(static_cast<uint64_t>(sequence), static_cast<uint64_t>(starts()));
  return static_cast<int64_t>(start);
}

ShuffledEpochs::ShuffledEpochs(const TokenFile& tokens, BatchShape shape, uint64_t seed)
    : WindowSampler(tokens, shape),
      seed_(seed),
      windows_(std::max<int64_t>(1, starts() / shape.T)) {}

int64_t ShuffledEpochs::StartAt(uint64_t position) const {
  const auto windows = static_cast<uint64_t>(windows_);
  const uint64_t epoch = position / windows;
  // With any offset below this the last window and its last target still lie in the file.
  const int64_t offsets = std::min(shape_.T, tokens_.size() - windows_ * shape_.T);
  const CounterRng rng(seed_, RngStream(RngPurpose::kData, epoch, kOffsetStream));
  const uint64_t offset = rng.Below(0, static_cast<uint64_t>(offsets));
  const uint64_t window = Permute(position % windows, windows, seed_, epoch);
  return static_cast<int64_t>(offset + window * static_cast<uint64_t>(shape_.T));
}

int64_t ShuffledEpochs::Start(uint64_t step, int64_t sequence) {
  return StartAt(step * static_cast<uint64_t>(shape_.sequences()) +
                 static_cast<uint64_t>(sequence));
}

int64_t TorchWindows::Start(uint64_t /*step*/, int64_t /*sequence*/) {
  int64_t start = 0;
  rng_.RandInt({&start, 1}, 0, starts());
  return start;
}

SequentialWindows::SequentialWindows(const TokenFile& tokens, BatchShape shape)
    : tokens_(tokens), shape_(shape) {
  CheckShape(shape);
  if (tokens.size() >= 2) return;
  throw InputError(fmt::format("{}: nothing to predict", tokens.path()),
                   fmt::format("at least 2 tokens are needed, the file has {}", tokens.size()),
                   "use more text");
}

int64_t SequentialWindows::steps() const {
  const int64_t rows = (targets() + shape_.T - 1) / shape_.T;
  return (rows + shape_.sequences() - 1) / shape_.sequences();
}

void SequentialWindows::Fill(uint64_t step, int64_t micro, Batch& batch) {
  FOLIO_CHECK(step < static_cast<uint64_t>(steps()), "the file is through");
  Prepare(shape_, micro, batch);
  std::fill(batch.inputs.begin(), batch.inputs.end(), 0);
  std::fill(batch.targets.begin(), batch.targets.end(), Batch::kNoTarget);
  const int64_t first = static_cast<int64_t>(step) * shape_.sequences() + micro * shape_.B;
  for (int64_t b = 0; b < shape_.B; ++b) {
    const int64_t start = (first + b) * shape_.T;
    const int64_t count = std::min(shape_.T, targets() - start);
    if (count > 0) FillRow(tokens_, start, count, b, batch);
  }
}

}  // namespace folio
