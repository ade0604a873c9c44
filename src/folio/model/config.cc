#include "folio/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/model/divisors.h"
#include "folio/model/head_layout.h"

namespace folio {

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

HeadLayout GptConfig::head_layout() const {
  return {.query_heads = n_head, .kv_heads = n_kv_head.value_or(n_head), .head_dim = head_size()};
}

double GptConfig::attention_scale(int64_t layer) const {
  const double scale = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_size())) : 1;
  return scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

void GptConfig::Validate(const std::string& where) const {
  if (!head_dim && n_embd % n_head != 0) {
    throw UsageError(fmt::format("{}: n_head must divide n_embd", where),
                     fmt::format("n_embd is {}, n_head is {}", n_embd, n_head),
                     fmt::format("set n_head to {}", NearestDivisors(n_embd, n_head)));
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
  const double per_block = (q_width + qkv_width) * C + 2 * C * F + 6 * C + qkv_width + F;
  const double total = C * static_cast<double>(2 * vocab_size + n_positions) +
                       per_block * static_cast<double>(n_layer);
  if (total > kMaxParameters) {
    throw UsageError(fmt::format("{}: the model is too large", where),
                     fmt::format("it would have about {:.2g} parameters", total),
                     "lower n_layer, n_embd, n_inner or vocab_size");
  }
  if (!learned_positions() && n_embd % 2 != 0) {
    throw UsageError(fmt::format("{}: sinusoidal positions need an even n_embd", where),
                     fmt::format("n_embd is {}", n_embd), "use an even n_embd");
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
                   fmt::format("its tokens are 0 to {}", V - 1),
                   "take the tokenizer that the model was trained with");
}

}  // namespace folio
