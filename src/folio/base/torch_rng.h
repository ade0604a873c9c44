#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace folio {

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

  // Everything needed to go on from here: 624 words, position, and the second normal of a pair.
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
