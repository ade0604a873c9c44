#include "folio/model/layers/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace folio {
namespace {

// theta^(-2i/r) / divisors[i], or undivided where there are no divisors.
std::vector<float> PlainFrequencies(double theta, int64_t r, std::span<const float> divisors = {}) {
  std::vector<float> inverse(static_cast<size_t>(r / 2));
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(r);
    const auto wave = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    inverse[i] = 1.0f / (divisors.empty() ? wave : divisors[i] * wave);
  }
  return inverse;
}

// The share of a frequency that Llama 3.1 keeps: all where waves are short, nothing where they are
// long.
double KeptByLlama3(const GptConfig& config, float frequency) {
  const auto positions = static_cast<double>(config.rope_positions());
  const double low = config.rope_low_freq_factor, high = config.rope_high_freq_factor;
  const double turns = positions * static_cast<double>(frequency) / (2 * std::numbers::pi);
  return std::clamp((turns - low) / (high - low), 0.0, 1.0);
}

// Divides by the factor the part of each frequency that is not kept.
void ScaleLikeLlama3(const GptConfig& config, std::vector<float>& inverse) {
  for (float& frequency : inverse) {
    const double divided = static_cast<double>(frequency) / config.rope_factor;
    const double kept = KeptByLlama3(config, frequency);
    frequency = static_cast<float>((1 - kept) * divided + kept * static_cast<double>(frequency));
  }
}

// YaRN: B. Peng et al., arXiv:2309.00071. Pairs that turn more than beta_fast times in the original
// context stay, those that turn less than beta_slow times are divided.
void ScaleLikeYarn(const GptConfig& config, double theta, std::vector<float>& inverse) {
  const auto r = static_cast<double>(config.rotary_width());
  const auto pair_of = [&](double turns) {
    const auto positions = static_cast<double>(config.rope_positions());
    return r * std::log(positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double first = std::max(0.0, std::floor(pair_of(config.rope_beta_fast)));
  const double last = std::min(r - 1, std::ceil(pair_of(config.rope_beta_slow)));
  for (size_t i = 0; i < inverse.size(); ++i) {
    const double width = last == first ? 0.001 : last - first;
    const double divided = std::clamp((static_cast<double>(i) - first) / width, 0.0, 1.0);
    const auto frequency = static_cast<double>(inverse[i]);
    inverse[i] =
        static_cast<float>(frequency / config.rope_factor * divided + frequency * (1 - divided));
  }
}

// Returns the factor that the configuration has, or `usual`, that of the scaling.
float AttentionFactor(const GptConfig& config, double usual) {
  return static_cast<float>(config.rope_attention_factor > 0 ? config.rope_attention_factor
                                                             : usual);
}

}  // namespace

std::vector<float> Llama3Divisors(const GptConfig& config) {
  std::vector<float> divisors = PlainFrequencies(config.rope_theta, config.rotary_width());
  for (float& number : divisors) {
    const double kept = KeptByLlama3(config, number);
    number = static_cast<float>(1 / ((1 - kept) / config.rope_factor + kept));
  }
  return divisors;
}

RotaryFrequencies RotaryFrequenciesOf(const GptConfig& config, size_t table) {
  const int64_t r = config.rotary_width();
  if (table == 1) return {.inverse = PlainFrequencies(config.rope_window_theta, r)};
  RotaryFrequencies result{.inverse = PlainFrequencies(config.rope_theta, r)};
  if (config.rope_scaling == RopeScaling::kLinear) {
    for (float& frequency : result.inverse) frequency /= static_cast<float>(config.rope_factor);
  } else if (config.rope_scaling == RopeScaling::kLlama3) {
    ScaleLikeLlama3(config, result.inverse);
  } else if (config.rope_scaling == RopeScaling::kYarn) {
    ScaleLikeYarn(config, config.rope_theta, result.inverse);
    result.attention_factor = AttentionFactor(config, 0.1 * std::log(config.rope_factor) + 1);
  } else if (config.rope_scaling == RopeScaling::kLongRope) {
    result.inverse =
        PlainFrequencies(config.rope_theta, r, config.rope_divisors(config.beyond_original()));
    const auto original = static_cast<double>(config.rope_positions());
    result.attention_factor =
        AttentionFactor(config, std::sqrt(1 + std::log(config.rope_factor) / std::log(original)));
  }
  return result;
}

void FillRotaryFrequencies(const GptConfig& config, RotaryTables& tables) {
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].angles) tables[i].frequencies = RotaryFrequenciesOf(config, i);
  }
}

void FillRotaryAngles(const PassContext& pass, const RotaryTables& tables) {
  for (const auto& [frequencies, angles] : tables) {
    if (!angles) continue;
    pass.backend.Run(
        RotaryAngles{.inv_freq = frequencies.inverse,
                     .positions = pass.positions,
                     .out = angles,
                     .attention_factor = static_cast<double>(frequencies.attention_factor)});
  }
}

void TurnHeads(const PassContext& pass, int64_t layer, const SequenceView& heads, bool back) {
  const LayerLayout kind = pass.config.layer(layer);
  if (!kind.rotary) return;
  pass.backend.Run(Rotary{.x = heads,
                          .table = pass.angles[*kind.rotary],
                          .D = pass.config.head_size(),
                          .inverse = back});
}

}  // namespace folio
