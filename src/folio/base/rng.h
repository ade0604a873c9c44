#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace folio {

// Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011. Four independent 32-bit words, a pure function of counter and key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Random numbers without state: number `index` of stream `stream` under `seed` is always the same,
// so results depend neither on threads nor on order nor on where a run was interrupted.
//
// Number `index` is word (index / 16) % 4 of the Philox block whose 64-bit counter is
// (index / 64) * 16 + index % 16: 64 consecutive numbers are 16 consecutive blocks, word by word,
// so that a vector kernel gets them in order without shuffling. The words of a counter are (block
// low, block high, stream low, stream high), those of the key (seed low, seed high).
class CounterRng {
 public:
  CounterRng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  uint32_t Bits(uint64_t index) const;
  // [0, 1), multiples of 2^-32.
  double Uniform(uint64_t index) const { return Bits(index) * 0x1p-32; }
  // Standard normal, at most 6.7 in size: Box-Muller on the first two words of block `index`.
  // Normal and Below read blocks by another rule than Bits: give each its own stream.
  double Normal(uint64_t index) const;
  // Uniform in [0, n) up to a bias below n / 2^64: the first two words of block `index` (the first
  // is the high one) times n, divided by 2^64. REQUIRES: n >= 1.
  uint64_t Below(uint64_t index, uint64_t n) const;

 private:
  uint64_t seed_;
  uint64_t stream_;
};

// Streams are numbered by purpose so that no two uses share one.
enum class RngPurpose : uint64_t {
  kInit = 1,
  kDropout = 2,
  kData = 3,
  kSampling = 4,
  kCorpus = 5,
  kEvaluation = 6,
};
// `a` in [0, 2^40), `b` in [0, 2^16): for dropout the step and the place in the model.
uint64_t RngStream(RngPurpose purpose, uint64_t a = 0, uint64_t b = 0);

// The draws of PyTorch's default CPU generator, number for number, for runs that must start where a
// PyTorch program with the same seed starts. MT19937: M. Matsumoto, T. Nishimura, ACM TOMACS 8
// (1998).
class TorchRng {
 public:
  static constexpr int kState = 624;

  explicit TorchRng(uint64_t seed);

  uint32_t Random32();
  uint64_t Random64();  // high word drawn first
  // Tensor.uniform_ and Tensor.normal_, bit for bit as on an x86 processor with AVX2 or AVX-512 (a
  // processor without them rounds some values the other way). Normal draws differently below and
  // from 16 elements on.
  void Uniform(std::span<float> out, double from, double to);
  void Normal(std::span<float> out, double mean, double std);
  // torch.randint, [low, high). From 2^28 values on each takes 64 bits, as in PyTorch 2.13 (1.13:
  // from 2^32). REQUIRES: low < high.
  void RandInt(std::span<int64_t> out, int64_t low, int64_t high);

  // The state needed to continue: 624 words, position, and the second normal of a pair.
  struct State {
    std::array<uint32_t, kState> words;
    uint32_t position = 0;
    bool has_normal = false;
    double normal = 0;
  };
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  void Refill();
  State state_;
};

}  // namespace folio
