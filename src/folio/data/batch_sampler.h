#pragma once

#include <cstdint>
#include <vector>

#include "folio/base/rng.h"
#include "folio/data/token_file.h"

namespace folio {

struct BatchShape;

// One micro-batch. The caller owns and reuses it: after the first Fill nothing is allocated.
struct Batch {
  // Target of a position that predicts nothing; its loss and gradient are 0.
  static constexpr int32_t kNoTarget = -1;

  int64_t B = 0;
  int64_t T = 0;
  std::vector<int32_t> inputs;   // (B,T)
  std::vector<int32_t> targets;  // (B,T), inputs shifted by one
  // (B,T): where, in its sequence, the text of each token begins; texts in one sequence do not
  // attend to each other. Empty: each sequence is one text.
  std::vector<int32_t> begins;

  // Gives it this shape, for micro-batch `micro`, with inputs 0 and no targets.
  void Clear(const BatchShape& shape, int64_t micro);
  int64_t CountTargets() const;  // positions with a target
};

// How the data of a run is divided into batches. A step's sequences are numbered 0 .. sequences - 1
// over all its micro-batches: micro-batch m holds numbers m*B .. m*B + B - 1. For all samplers but
// TorchWindows, sequence `index` of `step` is a pure function of the two (and the seed), so that
// neither the micro-batch size nor resuming changes the data.
struct BatchShape {
  int64_t B = 1;              // sequences in one micro-batch
  int64_t T = 1;              // tokens in a sequence
  int64_t micro_batches = 1;  // in one step

  int64_t sequences() const { return B * micro_batches; }
};

class BatchSampler {
 public:
  virtual ~BatchSampler() = default;

  // Fills micro-batch `micro` of step `step`, both from 0.
  virtual void Fill(uint64_t step, int64_t micro, Batch& batch) = 0;

  // The number by which the sum of a step's gradients is divided.
  virtual int64_t Targets(uint64_t step) const = 0;
};

// A sampler of windows of T tokens that keeps a reference to `tokens`. Throws a kInput Error if
// there are fewer than T + 1 tokens: one window and its last target.
class WindowSampler : public BatchSampler {
 public:
  void Fill(uint64_t step, int64_t micro, Batch& batch) final;
  // The number of positions, even if few have targets: a target has the same weight in every step.
  int64_t Targets(uint64_t /*step*/) const final { return shape_.sequences() * shape_.T; }

 protected:
  // The inputs are tokens [start, start + T). Those of [first, end) predict their successors, the
  // others are only context: their targets are kNoTarget.
  struct Window {
    int64_t start = 0;
    int64_t first = 0;
    int64_t end = 0;
  };

  WindowSampler(const TokenFile& tokens, BatchShape shape);
  // The window of a sequence; called in the order of the sequences.
  virtual Window At(uint64_t step, int64_t sequence) = 0;
  // The window from `start` on, in which every position has a target.
  Window Whole(int64_t start) const { return {start, start, start + shape_.T}; }
  // The number of the sequence in the run, over all steps.
  uint64_t Position(uint64_t step, int64_t sequence) const {
    return step * static_cast<uint64_t>(shape_.sequences()) + static_cast<uint64_t>(sequence);
  }
  // The number of places where a window can begin.
  int64_t starts() const { return tokens_.size() - shape_.T; }

  const TokenFile& tokens_;
  BatchShape shape_;
};

// Starts uniform in [0, size - T).
class RandomWindows final : public WindowSampler {
 public:
  RandomWindows(const TokenFile& tokens, BatchShape shape, uint64_t seed,
                RngPurpose purpose = RngPurpose::kData)
      : WindowSampler(tokens, shape), seed_(seed), purpose_(purpose) {}

 private:
  Window At(uint64_t step, int64_t sequence) override;

  uint64_t seed_;
  RngPurpose purpose_;
};

// In each epoch every token but the first is a target exactly once. Each epoch has its own random
// phase, which divides the targets into windows, and its own random order. The first and the last
// window are as long as the others: targets of other windows are only context in them. Epochs have
// equally many windows and follow each other inside of a batch.
class ShuffledEpochs final : public WindowSampler {
 public:
  ShuffledEpochs(const TokenFile& tokens, BatchShape shape, uint64_t seed);

  int64_t windows() const { return windows_; }  // in an epoch

 private:
  Window At(uint64_t step, int64_t sequence) override;
  // The number of targets in the first window of an epoch, 1 .. T.
  int64_t Phase(uint64_t epoch) const;

  uint64_t seed_;
  int64_t windows_;
};

// In each epoch all size - T overlapping windows in a random order: every place of the data is a
// start exactly once. Epochs follow each other inside of a batch.
class ShuffledWindows final : public WindowSampler {
 public:
  ShuffledWindows(const TokenFile& tokens, BatchShape shape, uint64_t seed)
      : WindowSampler(tokens, shape), seed_(seed) {}

 private:
  Window At(uint64_t step, int64_t sequence) override;

  uint64_t seed_;
};

// Starts drawn by torch.randint(size - T, (B,)) from a shared generator, in the order of the calls,
// whatever step and micro-batch they name: the batches of nanoGPT. The generator must outlive the
// sampler.
class TorchWindows final : public WindowSampler {
 public:
  TorchWindows(const TokenFile& tokens, BatchShape shape, TorchRng& rng)
      : WindowSampler(tokens, shape), rng_(rng) {}

 private:
  Window At(uint64_t step, int64_t sequence) override;

  TorchRng& rng_;
};

// The whole file in order, in windows of T positions that begin every `stride` tokens, up to the
// first that reaches the end. With a stride of T every token but the first is a target exactly
// once; with a shorter one windows overlap, and a token is a target once in each window that holds
// it. Unused positions in the last window and in the rows after it have inputs 0 and targets
// kNoTarget. Keeps a reference to `tokens`. Throws a kInput Error if there are fewer than two
// tokens.
class SequentialWindows final : public BatchSampler {
 public:
  // REQUIRES: 1 <= stride <= T.
  SequentialWindows(const TokenFile& tokens, BatchShape shape, int64_t stride);

  // REQUIRES: step < steps().
  void Fill(uint64_t step, int64_t micro, Batch& batch) override;
  int64_t Targets(uint64_t /*step*/) const override { return shape_.sequences() * shape_.T; }

  int64_t steps() const;  // the steps that cover the file
  // The number of batches for a file with this many tokens.
  static int64_t Batches(int64_t tokens, const BatchShape& shape, int64_t stride);

 private:
  int64_t targets() const { return tokens_.size() - 1; }
  int64_t windows() const { return Windows(tokens_.size(), shape_.T, stride_); }
  static int64_t Windows(int64_t tokens, int64_t T, int64_t stride);

  const TokenFile& tokens_;
  BatchShape shape_;
  int64_t stride_;
};

// The image of `index` under a pseudo-random permutation of 0 .. n - 1 that `seed` and `number`
// choose, in constant memory: a Feistel network over the next even power of two, repeated until the
// result is below n (J. Black, P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
// REQUIRES: index < n.
uint64_t Permute(uint64_t index, uint64_t n, uint64_t seed, uint64_t number);

}  // namespace folio
