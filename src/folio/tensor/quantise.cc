#include "folio/tensor/quantise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>

#include "folio/tensor/half.h"

namespace folio {
namespace {

// Bytes are equal to ggml's only if sums run over the numbers in order, and if each operation
// rounds as written here.

constexpr size_t kShort = 32, kLong = 256;

void StoreHalf(float value, std::byte* at) {
  const uint16_t bits = FloatToHalf(value);
  std::memcpy(at, &bits, sizeof bits);
}

// Rounded to binary16 and back.
float AsHalf(float value) {
  return HalfToFloat(FloatToHalf(value));
}

// Writes scales to `at`, one after the other. Where the block cannot be quantised it writes zeros
// to all its bytes and NaN for the first scale, and returns false.
bool StoreScales(std::span<const float> numbers, std::initializer_list<float> scales, std::byte* at,
                 std::span<std::byte> block) {
  const auto finite = [](float x) { return std::isfinite(x); };
  if (std::ranges::all_of(numbers, finite) &&
      std::ranges::all_of(scales, [&](float x) { return finite(AsHalf(x)); })) {
    for (const float scale : scales) {
      StoreHalf(scale, at);
      at += sizeof(uint16_t);
    }
    return true;
  }
  std::ranges::fill(block, std::byte{0});
  StoreHalf(std::numeric_limits<float>::quiet_NaN(), at);
  return false;
}

// ---- Blocks of 32 ------------------------------------------------------------------------------

// Numbers are multiplied by InverseOf(scale) before rounding; it is 0 if all of them vanish.
float InverseOf(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// The first number of largest magnitude.
float Largest(std::span<const float> numbers) {
  float largest = 0;
  for (const float x : numbers) {
    if (std::abs(x) > std::abs(largest)) largest = x;
  }
  return largest;
}

struct Extremes {
  float least, most;
};
Extremes ExtremesOf(std::span<const float> numbers) {
  Extremes found{numbers[0], numbers[0]};
  for (const float x : numbers) {
    if (x < found.least) found.least = x;
    if (x > found.most) found.most = x;
  }
  return found;
}

// Packs four-bit integers, the first half of them in the lower halves of bytes; fifth bits
// separately, in the order of the numbers.
void PackHalves(const std::array<unsigned, kShort>& q, std::byte* pairs, std::byte* fifths) {
  for (size_t i = 0; i < kShort / 2; ++i) {
    pairs[i] = static_cast<std::byte>((q[i] & 15) | (q[i + kShort / 2] & 15) << 4);
  }
  if (fifths == nullptr) return;
  uint32_t bits = 0;
  for (size_t i = 0; i < kShort; ++i) bits |= (q[i] >> 4) << i;
  std::memcpy(fifths, &bits, sizeof bits);
}

// Numbers around zero: the largest by magnitude becomes 0, its opposite would be 2 `half`, which is
// clipped to the last step.
bool EncodeSigned(const float* numbers, unsigned half, std::byte* block, size_t fifths) {
  const std::span<const float> all(numbers, kShort);
  const float scale = Largest(all) / -static_cast<float>(half);
  const size_t integers = 2 + fifths;
  if (!StoreScales(all, {scale}, block, {block, integers + kShort / 2})) return false;
  const float inverse = InverseOf(scale), middle = static_cast<float>(half) + 0.5f;
  std::array<unsigned, kShort> q;
  for (size_t i = 0; i < kShort; ++i) {
    q[i] = std::min(2 * half - 1, static_cast<unsigned>(all[i] * inverse + middle));
  }
  PackHalves(q, block + integers, fifths == 0 ? nullptr : block + 2);
  return true;
}

// Numbers from the smallest, 0, to the largest, `steps`.
bool EncodeFromLeast(const float* numbers, unsigned steps, std::byte* block, size_t fifths) {
  const std::span<const float> all(numbers, kShort);
  const auto [least, most] = ExtremesOf(all);
  const float scale = (most - least) / static_cast<float>(steps);
  const size_t integers = 4 + fifths;
  if (!StoreScales(all, {scale, least}, block, {block, integers + kShort / 2})) return false;
  const float inverse = InverseOf(scale);
  std::array<unsigned, kShort> q;
  for (size_t i = 0; i < kShort; ++i) {
    const float raised = (all[i] - least) * inverse + 0.5f;
    q[i] = std::min(steps, static_cast<unsigned>(raised));
  }
  PackHalves(q, block + integers, fifths == 0 ? nullptr : block + 4);
  return true;
}

// ---- Blocks of 256 -----------------------------------------------------------------------------

// The nearest integer, ties to even. REQUIRES: |x| < 2^22.
int Nearest(float x) {
  constexpr float kOnes = 0x1.8p23f;  // the last bit of a sum with it stands for 1
  return static_cast<int>(std::bit_cast<uint32_t>(x + kOnes) & 0x7fffffu) - 0x400000;
}

int NearestOf(float x, int least, int most) {
  return std::max(least, std::min(most, Nearest(x)));
}

// Below this all numbers of a part count as zero.
constexpr float kNothing = 1e-15f;

// Finds a scale for which integers of [-half, half) times it are near the numbers, with squared
// errors weighted by x^2. Each of the scales that map the number of largest magnitude to -half, and
// up to nine tenths more or less, gives integers; their best scale is a quotient of sums, and the
// remaining error is smallest where that scale times its numerator is largest.
float FitScale(std::span<const float> numbers, int half, uint8_t* q) {
  const float largest = Largest(numbers);
  if (std::abs(largest) < kNothing) {
    std::fill_n(q, numbers.size(), uint8_t{0});
    return 0;
  }
  const auto integer = [&](float x, float inverse) {
    return NearestOf(inverse * x, -half, half - 1);
  };
  float scale = 0, best = 0;
  const auto attempt = [&](float inverse, bool first) {
    float numerator = 0, squares = 0;
    for (const float x : numbers) {
      const auto l = static_cast<float>(integer(x, inverse));
      const float weight = x * x;
      numerator += weight * x * l;
      squares += weight * l * l;
    }
    if (!first && !(squares > 0 && numerator * numerator > best * squares)) return;
    for (size_t i = 0; i < numbers.size(); ++i) {
      q[i] = static_cast<uint8_t>(integer(numbers[i], inverse) + half);
    }
    scale = squares != 0 ? numerator / squares : 0.0f;
    best = scale * numerator;
  };
  attempt(-static_cast<float>(half) / largest, true);
  for (int tenths = -9; tenths <= 9; ++tenths) {
    if (tenths == 0) continue;
    attempt(-(static_cast<float>(half) + 0.1f * static_cast<float>(tenths)) / largest, false);
  }
  return scale;
}

// Scales that FitLine tries: those that spread the numbers over `most` steps and `first` more or
// less, and tenths beyond that.
struct LineSearch {
  int most;
  float first;
  int tenths;
};

// A scale and a minimum, at most 0, such that scale * q + minimum is near the numbers.
struct Line {
  float scale, minimum;
};

// Weights are the root of the mean square of the part plus the number's own magnitude. Each scale
// that is tried, with the best minimum so far, gives integers, and these give the line of least
// squares; if its minimum would be above 0, the line goes through 0. Returns the line with the
// smallest error.
Line FitLine(std::span<const float, kShort> numbers, const LineSearch& search, uint8_t* q) {
  std::array<float, kShort> weights;
  float squares = 0;
  for (const float x : numbers) squares += x * x;
  const float mean = std::sqrt(squares / static_cast<float>(kShort));
  for (size_t i = 0; i < kShort; ++i) weights[i] = mean + std::abs(numbers[i]);

  const Extremes extremes = ExtremesOf(numbers);
  const float least = std::min(extremes.least, 0.0f), largest = extremes.most;
  float sum_w = weights[0], sum_x = weights[0] * numbers[0];
  for (size_t i = 1; i < kShort; ++i) {
    sum_w += weights[i];
    sum_x += weights[i] * numbers[i];
  }
  if (largest == least) {
    std::fill_n(q, kShort, uint8_t{0});
    return {0, least};
  }
  std::array<int, kShort> l;
  const auto take_integers = [&](float steps, float from) {
    const float inverse = steps / (largest - from);
    for (size_t i = 0; i < kShort; ++i) {
      l[i] = NearestOf(inverse * (numbers[i] - from), 0, search.most);
    }
  };
  const auto error_of = [&](Line line) {
    float error = 0;
    for (size_t i = 0; i < kShort; ++i) {
      const float off = line.scale * static_cast<float>(l[i]) + line.minimum - numbers[i];
      error += weights[i] * (off * off);
    }
    return error;
  };
  const auto most = static_cast<float>(search.most);
  Line line{1 / (most / (largest - least)), least};
  take_integers(most, least);
  float best = error_of(line);
  std::ranges::copy(l, q);
  for (int tenths = 0; tenths <= search.tenths; ++tenths) {
    take_integers(search.first + 0.1f * static_cast<float>(tenths) + most, line.minimum);
    float sum_l = 0, sum_ll = 0, sum_xl = 0;
    for (size_t i = 0; i < kShort; ++i) {
      const auto integer = static_cast<float>(l[i]);
      sum_l += weights[i] * integer;
      sum_ll += weights[i] * integer * integer;
      sum_xl += weights[i] * integer * numbers[i];
    }
    const float determinant = sum_w * sum_ll - sum_l * sum_l;
    if (!(determinant > 0)) continue;
    Line fitted{(sum_w * sum_xl - sum_x * sum_l) / determinant,
                (sum_ll * sum_x - sum_l * sum_xl) / determinant};
    if (fitted.minimum > 0) fitted = {sum_xl / sum_ll, 0};
    const float error = error_of(fitted);
    if (!(error < best)) continue;
    best = error;
    line = fitted;
    std::ranges::copy(l, q);
  }
  return line;
}

constexpr size_t kParts = kLong / kShort;

// Q4_K, and Q5_K with 32 bytes of fifth bits before the others.
bool EncodeLines(const float* numbers, const LineSearch& search, std::byte* block, bool fifths) {
  constexpr float kSteps = 63;  // of scales and minima
  constexpr size_t kScales = 4, kBits = 16;
  const std::span<const float> all(numbers, kLong);
  const size_t bytes = kBits + (fifths ? kShort : 0) + kLong / 2;
  std::array<uint8_t, kLong> q;
  std::array<Line, kParts> lines;
  Line largest{0, 0};  // the largest of each, for minima by magnitude
  for (size_t part = 0; part < kParts; ++part) {
    Line& line = lines[part];
    line = FitLine(all.subspan(part * kShort).first<kShort>(), search, q.data() + part * kShort);
    line.minimum = -line.minimum;
    largest = {std::max(largest.scale, line.scale), std::max(largest.minimum, line.minimum)};
  }
  const Line unit{largest.scale / kSteps, largest.minimum / kSteps};
  if (!StoreScales(all, {unit.scale, unit.minimum}, block, {block, bytes})) return false;

  std::byte* const six = block + kScales;
  std::fill(six, block + bytes, std::byte{0});
  const auto quantised = [](float x, float most) {
    const float inverse = most > 0 ? kSteps / most : 0.0f;
    return std::min(uint8_t{63}, static_cast<uint8_t>(Nearest(inverse * x)));
  };
  for (size_t part = 0; part < kParts; ++part) {
    const unsigned scale = quantised(lines[part].scale, largest.scale);
    const unsigned minimum = quantised(lines[part].minimum, largest.minimum);
    if (part < kParts / 2) {
      six[part] = static_cast<std::byte>(scale);
      six[part + 4] = static_cast<std::byte>(minimum);
    } else {
      six[part + 4] = static_cast<std::byte>((scale & 15) | (minimum & 15) << 4);
      six[part - 4] |= static_cast<std::byte>(scale >> 4 << 6);
      six[part] |= static_cast<std::byte>(minimum >> 4 << 6);
    }
    const float step = AsHalf(unit.scale) * static_cast<float>(scale);
    const float added = AsHalf(unit.minimum) * static_cast<float>(minimum);
    for (size_t i = part * kShort; step != 0 && i < (part + 1) * kShort; ++i) {
      q[i] = static_cast<uint8_t>(NearestOf((all[i] + added) / step, 0, search.most));
    }
  }
  std::byte* const halves = block + bytes - kLong / 2;
  for (size_t i = 0; i < kLong; ++i) {
    const size_t part = i / kShort, at = i % kShort;
    halves[part / 2 * kShort + at] |= static_cast<std::byte>((q[i] & 15) << part % 2 * 4);
    if (fifths) block[kBits + at] |= static_cast<std::byte>(q[i] >> 4 << part);
  }
  return true;
}

}  // namespace

bool EncodeQ80(const float* numbers, std::byte* block) {
  const std::span<const float> all(numbers, kShort);
  const float scale = std::abs(Largest(all)) / 127;
  if (!StoreScales(all, {scale}, block, {block, 2 + kShort})) return false;
  const float inverse = InverseOf(scale);
  for (size_t i = 0; i < kShort; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(all[i] * inverse)));
  }
  return true;
}

bool EncodeQ40(const float* numbers, std::byte* block) {
  return EncodeSigned(numbers, 8, block, 0);
}

bool EncodeQ41(const float* numbers, std::byte* block) {
  return EncodeFromLeast(numbers, 15, block, 0);
}

bool EncodeQ50(const float* numbers, std::byte* block) {
  return EncodeSigned(numbers, 16, block, 4);
}

bool EncodeQ51(const float* numbers, std::byte* block) {
  return EncodeFromLeast(numbers, 31, block, 4);
}

bool EncodeQ4K(const float* numbers, std::byte* block) {
  return EncodeLines(numbers, {.most = 15, .first = -1.0f, .tenths = 20}, block, false);
}

bool EncodeQ5K(const float* numbers, std::byte* block) {
  return EncodeLines(numbers, {.most = 31, .first = -0.5f, .tenths = 15}, block, true);
}

bool EncodeQ6K(const float* numbers, std::byte* block) {
  constexpr size_t kHalves = 16, kHigh = 128, kScales = 192, kScale = 208, kBytes = 210;
  constexpr int kHalf = 32;
  const std::span<const float> all(numbers, kLong);
  std::array<uint8_t, kLong> q;
  std::array<float, kHalves> scales;
  for (size_t part = 0; part < kHalves; ++part) {
    scales[part] = FitScale(all.subspan(part * kHalves, kHalves), kHalf, q.data() + part * kHalves);
  }
  // The number of largest magnitude becomes -128.
  const float largest = Largest(scales);
  const bool nothing = std::abs(largest) < kNothing;
  const float inverse = nothing ? 0.0f : -128.0f / largest, scale = nothing ? 0.0f : 1 / inverse;
  std::fill_n(block, kBytes, std::byte{0});
  if (!StoreScales(all, {scale}, block + kScale, {block, kBytes})) return false;
  if (nothing) return true;
  for (size_t part = 0; part < kHalves; ++part) {
    const int eight = std::min(127, Nearest(inverse * scales[part]));
    block[kScales + part] = static_cast<std::byte>(static_cast<int8_t>(eight));
    const float step = AsHalf(scale) * static_cast<float>(static_cast<int8_t>(eight));
    for (size_t i = part * kHalves; step != 0 && i < (part + 1) * kHalves; ++i) {
      q[i] = static_cast<uint8_t>(NearestOf(all[i] / step, -kHalf, kHalf - 1) + kHalf);
    }
  }
  for (size_t i = 0; i < kLong; ++i) {
    const size_t group = i / 128, place = i % 128;
    block[group * 64 + place % 64] |= static_cast<std::byte>((q[i] & 15) << place / 64 * 4);
    block[kHigh + group * 32 + place % 32] |= static_cast<std::byte>(q[i] >> 4 << place / 32 * 2);
  }
  return true;
}

}  // namespace folio
