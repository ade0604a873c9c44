#include "folio/data/batch_sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

// Stream numbers of kData: random windows and epochs never share one.
constexpr uint64_t kWindowStream = 0;
constexpr uint64_t kPhaseStream = 1;
constexpr uint64_t kFirstRoundStream = 2;
constexpr int kRounds = 6;

void CheckShape(const BatchShape& shape) {
  FOLIO_CHECK(shape.B >= 1 && shape.T >= 1 && shape.micro_batches >= 1, "a batch holds something");
}

// Row b of a (B,T) array.
std::span<int32_t> RowOf(std::vector<int32_t>& array, int64_t b, int64_t T) {
  return std::span(array).subspan(static_cast<size_t>(b * T), static_cast<size_t>(T));
}

// Fills `count` positions of row b; the inputs are tokens [start, start + count).
void FillRow(const TokenFile& tokens, int64_t start, int64_t count, int64_t b, Batch& batch) {
  const std::span<int32_t> inputs = RowOf(batch.inputs, b, batch.T);
  const std::span<int32_t> targets =
      RowOf(batch.targets, b, batch.T).first(static_cast<size_t>(count));
  tokens.Read(start + 1, targets);
  tokens.Read(start, inputs.first(1));
  std::copy(targets.begin(), targets.end() - 1, inputs.begin() + 1);
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

void Batch::Clear(const BatchShape& shape, int64_t micro) {
  FOLIO_CHECK(micro >= 0 && micro < shape.micro_batches, "no such micro-batch");
  B = shape.B;
  T = shape.T;
  inputs.assign(static_cast<size_t>(B * T), 0);
  targets.assign(static_cast<size_t>(B * T), kNoTarget);
  begins.clear();
}

int64_t Batch::CountTargets() const {
  return std::ranges::count_if(targets, [](int32_t target) { return target != kNoTarget; });
}

WindowSampler::WindowSampler(const TokenFile& tokens, BatchShape shape)
    : tokens_(tokens), shape_(shape) {
  CheckShape(shape);
  if (tokens.size() > shape.T) return;
  throw InputError(fmt::format("{}: shorter than one window", tokens.path()),
                   fmt::format("a context of {} requires {} tokens, the file has {}", shape.T,
                               shape.T + 1, tokens.size()),
                   tokens.size() >= 2
                       ? fmt::format("use --context {} or less, or more text", tokens.size() - 1)
                       : "use more text");
}

void WindowSampler::Fill(uint64_t step, int64_t micro, Batch& batch) {
  batch.Clear(shape_, micro);
  for (int64_t b = 0; b < shape_.B; ++b) {
    const Window window = At(step, micro * shape_.B + b);
    FillRow(tokens_, window.start, shape_.T, b, batch);
    const std::span<int32_t> targets = RowOf(batch.targets, b, batch.T);
    const auto before = static_cast<size_t>(window.first - window.start);
    const auto after = static_cast<size_t>(window.end - window.start);
    std::ranges::fill(targets.first(before), Batch::kNoTarget);
    std::ranges::fill(targets.subspan(after), Batch::kNoTarget);
  }
}

WindowSampler::Window RandomWindows::At(uint64_t step, int64_t sequence) {
  const CounterRng rng(seed_, RngStream(purpose_, step, kWindowStream));
  const uint64_t start =
      rng.Below(static_cast<uint64_t>(sequence), static_cast<uint64_t>(starts()));
  return Whole(static_cast<int64_t>(start));
}

// M targets are divided into a first window with `phase` of them, full windows, and a last one with
// the rest. If one window holds all, or one target fills a window, there is nothing to choose.
ShuffledEpochs::ShuffledEpochs(const TokenFile& tokens, BatchShape shape, uint64_t seed)
    : WindowSampler(tokens, shape), seed_(seed) {
  const int64_t M = tokens.size() - 1, T = shape.T;
  windows_ = M / T + (M > T && T > 1 ? 1 : 0);
}

int64_t ShuffledEpochs::Phase(uint64_t epoch) const {
  const int64_t M = tokens_.size() - 1, T = shape_.T;
  if (windows_ * T == M) return T;
  // The first and last window have at least one and at most T targets each, together T + rest.
  const int64_t rest = M % T;
  const int64_t least = std::max<int64_t>(1, rest), most = std::min(T, T + rest - 1);
  const CounterRng rng(seed_, RngStream(RngPurpose::kData, epoch, kPhaseStream));
  return least + static_cast<int64_t>(rng.Below(0, static_cast<uint64_t>(most - least + 1)));
}

WindowSampler::Window ShuffledEpochs::At(uint64_t step, int64_t sequence) {
  const auto windows = static_cast<uint64_t>(windows_);
  const uint64_t position = Position(step, sequence), epoch = position / windows;
  const auto window = static_cast<int64_t>(Permute(position % windows, windows, seed_, epoch));
  const int64_t end = Phase(epoch) + window * shape_.T;  // end of the window's targets, except for
                                                         // the last window
  const int64_t first = std::max<int64_t>(0, end - shape_.T);
  const int64_t last_start = starts() - 1;
  return {std::min(first, last_start), first, std::min(end, last_start + shape_.T)};
}

WindowSampler::Window ShuffledWindows::At(uint64_t step, int64_t sequence) {
  const auto windows = static_cast<uint64_t>(starts());
  const uint64_t position = Position(step, sequence);
  const uint64_t start = Permute(position % windows, windows, seed_, position / windows);
  return Whole(static_cast<int64_t>(start));
}

WindowSampler::Window TorchWindows::At(uint64_t /*step*/, int64_t /*sequence*/) {
  int64_t start = 0;
  rng_.RandInt({&start, 1}, 0, starts());
  return Whole(start);
}

SequentialWindows::SequentialWindows(const TokenFile& tokens, BatchShape shape, int64_t stride)
    : tokens_(tokens), shape_(shape), stride_(stride) {
  CheckShape(shape);
  FOLIO_CHECK(stride >= 1 && stride <= shape.T, "windows leave no token out");
  if (tokens.size() >= 2) return;
  throw InputError(fmt::format("{}: nothing to predict", tokens.path()),
                   fmt::format("at least 2 tokens are needed, the file has {}", tokens.size()),
                   "use more text");
}

int64_t SequentialWindows::Windows(int64_t tokens, int64_t T, int64_t stride) {
  const int64_t behind_first = std::max<int64_t>(0, tokens - 1 - T);
  return 1 + (behind_first + stride - 1) / stride;
}

int64_t SequentialWindows::Batches(int64_t tokens, const BatchShape& shape, int64_t stride) {
  return (Windows(tokens, shape.T, stride) + shape.sequences() - 1) / shape.sequences();
}

int64_t SequentialWindows::steps() const {
  return Batches(tokens_.size(), shape_, stride_);
}

void SequentialWindows::Fill(uint64_t step, int64_t micro, Batch& batch) {
  FOLIO_CHECK(step < static_cast<uint64_t>(steps()), "the file is through");
  batch.Clear(shape_, micro);
  const int64_t first = static_cast<int64_t>(step) * shape_.sequences() + micro * shape_.B;
  const int64_t rows = std::min(shape_.B, windows() - first);
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t start = (first + b) * stride_;
    FillRow(tokens_, start, std::min(shape_.T, targets() - start), b, batch);
  }
}

}  // namespace folio
