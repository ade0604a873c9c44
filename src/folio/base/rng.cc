#include "folio/base/rng.h"

#include <cmath>
#include <numbers>

#include "folio/base/check.h"

namespace folio {
namespace {

uint32_t Low(uint64_t x) {
  return static_cast<uint32_t>(x);
}
uint32_t High(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}

std::array<uint32_t, 4> Block(uint64_t seed, uint64_t stream, uint64_t block) {
  return Philox({Low(block), High(block), Low(stream), High(stream)}, {Low(seed), High(seed)});
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {High(b) ^ counter[1] ^ key[0], Low(b), High(a) ^ counter[3] ^ key[1], Low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint32_t CounterRng::Bits(uint64_t index) const {
  return Block(seed_, stream_, index / 64 * 16 + index % 16)[index / 16 % 4];
}

double CounterRng::Normal(uint64_t index) const {
  const std::array<uint32_t, 4> words = Block(seed_, stream_, index);
  const double radius = std::sqrt(-2.0 * std::log((words[0] + 1.0) * 0x1p-32));
  return radius * std::cos(2.0 * std::numbers::pi * (words[1] * 0x1p-32));
}

uint64_t CounterRng::Below(uint64_t index, uint64_t n) const {
  FOLIO_CHECK(n >= 1, "nothing lies in [0, 0)");
  const std::array<uint32_t, 4> words = Block(seed_, stream_, index);
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{uint64_t{words[0]} << 32 | words[1]} * n >> 64);
}

uint64_t RngStream(RngPurpose purpose, uint64_t a, uint64_t b) {
  FOLIO_CHECK(a < (uint64_t{1} << 40) && b < (uint64_t{1} << 16), "stream number out of range");
  return static_cast<uint64_t>(purpose) << 56 | a << 16 | b;
}

namespace {

constexpr size_t kGroup = 16;  // normals that are made from one group of uniforms

double Uniform53(TorchRng& rng) {
  return static_cast<double>(rng.Random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

// PyTorch draws float normals on x86 with single-precision polynomials for log, sin and cos (S. L.
// Moshier's Cephes library, 1984-1992), compiled so that some multiply-adds are fused. The next
// three functions round where that code rounds, hence every std::fma and every plain product.

float Polynomial(float x, std::span<const float> highest_first) {
  float y = 0;
  for (float coefficient : highest_first) y = std::fma(y, x, coefficient);
  return y;
}

// Natural logarithm. REQUIRES: x positive and normal.
float LogF(float x) {
  static constexpr std::array kLog = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                      -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                      2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  int power = 0;
  float m = std::frexp(x, &power);  // in [0.5, 1), then [sqrt(0.5), sqrt(2)) - 1
  if (m < std::numbers::sqrt2_v<float> / 2) {
    m = m - 1.0f + m;
    --power;
  } else {
    m = m - 1.0f;
  }
  const float e = static_cast<float>(power);
  const float square = m * m;
  float y = Polynomial(m, kLog) * m;
  y = std::fma(y, square, e * kLn2Low);
  y = y - 0.5f * square;
  return std::fma(e, kLn2High, m + y);
}

struct SinCos {
  float sin, cos;
};

// REQUIRES: 0 <= x <= 2 pi.
SinCos SinCosF(float x) {
  static constexpr std::array kSin = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
  static constexpr std::array kCos = {2.443315711809948e-5f, -1.388731625493765e-3f,
                                      4.166664568298827e-2f};
  const int octant = (static_cast<int>(x * (4 / std::numbers::pi_v<float>)) + 1) & ~1;
  // x - octant pi / 4, in three steps, the first two of which are exact.
  const float y = static_cast<float>(octant);
  x = std::fma(y, -0.78515625f, x);
  x = std::fma(y, -2.4187564849853515625e-4f, x);
  x = std::fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  const float cos = std::fma(Polynomial(z, kCos) * z, z, -0.5f * z) + 1.0f;
  const float sin = std::fma(Polynomial(z, kSin) * z, x, x);
  const bool swap = (octant & 2) != 0;
  const float sin_sign = (octant & 4) != 0 ? -1.0f : 1.0f;
  const float cos_sign = ((octant + 2) & 4) != 0 ? -1.0f : 1.0f;
  return {sin_sign * (swap ? cos : sin), cos_sign * (swap ? sin : cos)};
}

// Sixteen uniforms into sixteen normals, the first eight with the last eight.
void NormalGroup(float* data, float mean, float std) {
  for (size_t j = 0; j < kGroup / 2; ++j) {
    const float radius = std::sqrt(-2.0f * LogF(1.0f - data[j]));
    const SinCos angle = SinCosF(2.0f * std::numbers::pi_v<float> * data[j + kGroup / 2]);
    data[j] = std::fma(radius * angle.cos, std, mean);
    data[j + kGroup / 2] = std::fma(radius * angle.sin, std, mean);
  }
}

}  // namespace

TorchRng::TorchRng(uint64_t seed) {
  uint32_t word = static_cast<uint32_t>(seed);
  state_.words[0] = word;
  for (uint32_t i = 1; i < kState; ++i) {
    word = 1812433253u * (word ^ (word >> 30)) + i;
    state_.words[i] = word;
  }
  state_.position = kState;
}

void TorchRng::Refill() {
  constexpr size_t kShift = 397;
  for (size_t i = 0; i < kState; ++i) {
    const uint32_t joined =
        (state_.words[i] & 0x80000000u) | (state_.words[(i + 1) % kState] & 0x7fffffffu);
    const uint32_t twist = (joined & 1) != 0 ? 0x9908b0dfu : 0;
    state_.words[i] = state_.words[(i + kShift) % kState] ^ (joined >> 1) ^ twist;
  }
  state_.position = 0;
}

uint32_t TorchRng::Random32() {
  if (state_.position >= kState) Refill();
  uint32_t word = state_.words[state_.position++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

uint64_t TorchRng::Random64() {
  const uint64_t high = Random32();
  return high << 32 | Random32();
}

void TorchRng::Uniform(std::span<float> out, double from, double to) {
  const float low = static_cast<float>(from);
  const float range = static_cast<float>(to) - low;
  for (float& x : out) {
    const float unit = static_cast<float>(Random32() & ((1u << 24) - 1)) * 0x1p-24f;
    x = std::fma(unit, range, low);
  }
}

void TorchRng::Normal(std::span<float> out, double mean, double std) {
  if (out.size() >= kGroup) {
    Uniform(out, 0.0, 1.0);
    const float m = static_cast<float>(mean), s = static_cast<float>(std);
    for (size_t i = 0; i + kGroup <= out.size(); i += kGroup) NormalGroup(&out[i], m, s);
    if (out.size() % kGroup != 0) {
      const std::span<float> last = out.last(kGroup);
      Uniform(last, 0.0, 1.0);
      NormalGroup(last.data(), m, s);
    }
    return;
  }
  for (float& x : out) {
    double normal = state_.normal;
    if (!state_.has_normal) {
      const double theta = 2.0 * std::numbers::pi * Uniform53(*this);
      const double radius = std::sqrt(-2.0 * std::log1p(-Uniform53(*this)));
      normal = radius * std::cos(theta);
      state_.normal = radius * std::sin(theta);
    }
    state_.has_normal = !state_.has_normal;
    x = static_cast<float>(normal * std + mean);
  }
}

void TorchRng::RandInt(std::span<int64_t> out, int64_t low, int64_t high) {
  FOLIO_CHECK(low < high, "randint of an empty range");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  for (int64_t& x : out) {
    const uint64_t random = range >> 28 != 0 ? Random64() : Random32();
    x = static_cast<int64_t>(random % range + static_cast<uint64_t>(low));
  }
}

}  // namespace folio
