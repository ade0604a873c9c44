#include "folio/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {

namespace {

constexpr int64_t kSizeLimit = int64_t{1} << 30;

// The positive multiples of d on either side of n.
std::string NearestMultiples(int64_t d, int64_t n) {
  const int64_t below = n / d * d;
  return below == 0 ? fmt::format("{}", d) : fmt::format("{} or {}", below, below + d);
}

// The positive numbers of "1,1.5"; none where one is no such.
std::vector<float> PositiveNumbers(const std::string& text) {
  std::vector<float> numbers;
  for (const std::string& part : Split(text, ',')) {
    double number = 0;
    const char* end = part.data() + part.size();
    const auto [stop, problem] = std::from_chars(part.data(), end, number);
    const auto rounded = static_cast<float>(number);
    if (problem != std::errc() || stop != end || !(rounded > 0) || !std::isfinite(rounded)) {
      return {};
    }
    numbers.push_back(rounded);
  }
  return numbers;
}

// LongRoPE has a divisor for each pair, in the original context and beyond it.
void ValidateLongRope(const GptConfig& config, const std::string& where) {
  if (config.rope_scaling != "longrope") return;
  const int64_t pairs = config.rotary_width() / 2;
  for (const auto& [name, text] : {std::pair{"rope_short_factors", &config.rope_short_factors},
                                   std::pair{"rope_long_factors", &config.rope_long_factors}}) {
    const int64_t found = std::ssize(PositiveNumbers(*text));
    if (found == pairs) continue;
    throw UsageError(fmt::format("{}: the length of {} is wrong", where, name),
                     fmt::format("found {} positive numbers, expected {}", found, pairs),
                     "set it to positive numbers separated by commas");
  }
  if (config.rope_positions() < 2) {
    throw UsageError(fmt::format("{}: longrope needs rope_original_positions", where),
                     fmt::format("rope_original_positions is {}", config.rope_positions()),
                     "set it to 2 or more");
  }
}

}  // namespace

std::string NearestDivisors(int64_t n, int64_t d) {
  int64_t below = std::min(d, n), above = below;
  while (n % below != 0) --below;
  while (n % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

void CheckSize(std::string_view where, NamedSize size) {
  if (size.value >= 1 && size.value < kSizeLimit) return;
  throw UsageError(fmt::format("{}: {} is out of range", where, size.name),
                   fmt::format("{} is {}", size.name, size.value),
                   fmt::format("set {} to a value from 1 to {}", size.name, kSizeLimit - 1));
}

void CheckDivides(std::string_view where, NamedSize part, NamedSize whole) {
  CheckSize(where, part);
  CheckSize(where, whole);
  const int64_t n = whole.value, d = part.value;
  if (n % d == 0) return;
  throw UsageError(fmt::format("{}: {} must divide {}", where, part.name, whole.name),
                   fmt::format("{} is {}, {} is {}", whole.name, n, part.name, d),
                   fmt::format("set {} to {}, or {} to {}", part.name, NearestDivisors(n, d),
                               whole.name, NearestMultiples(d, n)));
}

Activation GptConfig::activation() const {
  const auto found = std::ranges::find(kActivations, activation_function, &NamedActivation::name);
  FOLIO_CHECK(found != kActivations.end(), "activation_function was not validated");
  return found->kind;
}

std::vector<std::string> GptConfig::ActivationNames() {
  std::vector<std::string> names;
  for (const NamedActivation& activation : kActivations) names.emplace_back(activation.name);
  return names;
}

double GptConfig::score_scale(int64_t layer) const {
  const double plain = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_size())) : 1;
  const double scale = attention_scale > 0 ? attention_scale : plain;
  return scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

std::vector<float> GptConfig::rope_divisors(bool beyond) const {
  return PositiveNumbers(beyond ? rope_long_factors : rope_short_factors);
}

LayerKind GptConfig::layer_kind(int64_t layer) const {
  const auto l = static_cast<size_t>(layer);
  const bool window = sliding_window && layer_kinds[l % layer_kinds.size()] == 'w';
  LayerKind kind{.window = window ? *sliding_window : 0};
  const bool turns = rotary() && (no_rope_every == 0 || (layer + 1) % no_rope_every != 0);
  if (turns) kind.rotary = window && rope_window_theta > 0 ? 1 : 0;
  return kind;
}

namespace {

// What smear and value_embeddings need of the rest.
void ValidateExtras(const GptConfig& config, const std::string& where) {
  const bool added = config.learned_positions() || config.position_embedding == "sinusoidal";
  if (config.smear && added) {
    throw UsageError(fmt::format("{}: smear needs embeddings without positions", where),
                     fmt::format("position_embedding is {}", config.position_embedding),
                     "set position_embedding to rotary, or smear to false");
  }
  for (const auto& [name, on, least] :
       {std::tuple{"smear", config.smear, kSmearChannels},
        std::tuple{"value_embeddings", config.value_embeddings, kValueChannels}}) {
    if (!on || config.n_embd >= least) continue;
    throw UsageError(fmt::format("{}: the gates of {} read {} channels", where, name, least),
                     fmt::format("n_embd is {}", config.n_embd),
                     fmt::format("set n_embd to {} or more, or {} to false", least, name));
  }
}

}  // namespace

void GptConfig::Validate(const std::string& where) const {
  if (!head_dim && n_embd % n_head != 0) {
    throw UsageError(fmt::format("{}: n_head must divide n_embd", where),
                     fmt::format("n_embd is {}, n_head is {}", n_embd, n_head),
                     fmt::format("set n_head to {}", NearestDivisors(n_embd, n_head)));
  }
  if (block != "serial" && norm_position != "pre") {
    throw UsageError(fmt::format("{}: parallel sublayers need a norm before them", where),
                     fmt::format("block is {}, norm_position is {}", block, norm_position),
                     "set norm_position to pre, or block to serial");
  }
  if (one_norm() && sublayer_pdrop > 0) {
    throw UsageError(fmt::format("{}: sublayers that share a norm cannot have dropout", where),
                     fmt::format("block is {}, sublayer_pdrop is {}", block, sublayer_pdrop),
                     "set sublayer_pdrop to 0, or block to parallel");
  }
  const HeadLayout heads = head_layout();
  if (n_head % heads.kv_heads != 0) {
    throw UsageError(fmt::format("{}: n_kv_head must divide n_head", where),
                     fmt::format("n_head is {}, n_kv_head is {}", n_head, heads.kv_heads),
                     fmt::format("set n_kv_head to {}", NearestDivisors(n_head, heads.kv_heads)));
  }
  // Beyond this, sums of sizes could overflow; no machine holds such a model anyway.
  constexpr double kMaxParameters = 1e14;
  const double C = static_cast<double>(n_embd), F = static_cast<double>(inner());
  const auto q_width = static_cast<double>(heads.q_width());
  const auto qkv_width = static_cast<double>(heads.qkv_width());
  const double values =
      value_embeddings ? static_cast<double>(heads.kv_width()) * static_cast<double>(vocab_size)
                       : 0;
  const double per_block = (q_width + qkv_width) * C + 2 * C * F + 6 * C + qkv_width + F + values;
  const double total = C * static_cast<double>(2 * vocab_size + n_positions) +
                       per_block * static_cast<double>(n_layer);
  if (total > kMaxParameters) {
    throw UsageError(fmt::format("{}: the model is too large", where),
                     fmt::format("it would have about {:.2g} parameters", total),
                     "lower n_layer, n_embd, n_inner or vocab_size");
  }
  if (position_embedding == "sinusoidal" && n_embd % 2 != 0) {
    throw UsageError(fmt::format("{}: sinusoidal positions need an even n_embd", where),
                     fmt::format("n_embd is {}", n_embd), "use an even n_embd");
  }
  if (rotary() && (rotary_width() % 2 != 0 || rotary_width() > head_size())) {
    throw UsageError(
        fmt::format("{}: rotary_dim must be even and fit in a head", where),
        fmt::format("rotary_dim is {}, the size of a head is {}", rotary_width(), head_size()),
        fmt::format("set rotary_dim to an even number up to {}", head_size()));
  }
  ValidateExtras(*this, where);
  ValidateLongRope(*this, where);
  if (layer_kinds.empty() || layer_kinds.find_first_not_of("fw") != std::string::npos) {
    throw UsageError(fmt::format("{}: layer_kinds may contain only f and w", where),
                     fmt::format("it is \"{}\"", layer_kinds),
                     "f is full attention, w a sliding window: \"wwf\"");
  }
  if (layer_kinds.find('w') != std::string::npos && !sliding_window) {
    throw UsageError(fmt::format("{}: layers with a sliding window need its size", where),
                     fmt::format("layer_kinds is \"{}\", sliding_window is null", layer_kinds),
                     "set sliding_window");
  }
  if (layer_kinds.find('w') != std::string::npos && !causal) {
    throw UsageError(fmt::format("{}: sliding windows need causal attention", where),
                     "causal is false, and layer_kinds has a w", "set causal, or layer_kinds = f");
  }
  for (const auto& [name, id] :
       {std::pair{"bos_token_id", bos_token_id}, std::pair{"eos_token_id", eos_token_id}}) {
    if (id && *id >= vocab_size) {
      throw UsageError(fmt::format("{}: {} is outside the vocabulary", where, name),
                       fmt::format("it is {}, vocab_size is {}", *id, vocab_size),
                       fmt::format("set {} below vocab_size, or null", name));
    }
  }
}

void RequireTokens(std::span<const int32_t> ids, int64_t V, std::string_view name, int32_t lowest) {
  const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < lowest || id >= V; });
  if (wrong == ids.end()) return;
  throw UsageError(fmt::format("{}: the model has no token {}", name, *wrong),
                   fmt::format("the token ids are 0 to {}", V - 1),
                   "use the tokenizer of the model");
}

}  // namespace folio
