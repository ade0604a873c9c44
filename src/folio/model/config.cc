#include "folio/model/config.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/model/divisors.h"

namespace folio {

Activation GptConfig::activation() const {
  if (activation_function == "gelu_new") return Activation::kGeluNew;
  if (activation_function == "gelu") return Activation::kGelu;
  FOLIO_CHECK(activation_function == "relu", "activation_function was not validated");
  return Activation::kRelu;
}

void GptConfig::Validate(const std::string& where) const {
  if (n_embd % n_head != 0) {
    throw UsageError(fmt::format("{}: n_head must divide n_embd", where),
                     fmt::format("n_embd is {}, n_head is {}", n_embd, n_head),
                     fmt::format("set n_head to {}", NearestDivisors(n_embd, n_head)));
  }
  // Beyond this, sums of sizes could overflow; no machine holds such a model anyway.
  constexpr double kMaxParameters = 1e14;
  const double C = static_cast<double>(n_embd), F = static_cast<double>(inner());
  const double per_block = 4 * C * C + 2 * C * F + 9 * C + F;
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
  lora.Validate(where);
  for (const auto& [name, id] :
       {std::pair{"bos_token_id", bos_token_id}, std::pair{"eos_token_id", eos_token_id}}) {
    if (id && *id >= vocab_size) {
      throw UsageError(fmt::format("{}: {} is outside the vocabulary", where, name),
                       fmt::format("it is {}, vocab_size is {}", *id, vocab_size),
                       fmt::format("set {} below vocab_size, or null", name));
    }
  }
}

}  // namespace folio
