#include "folio/model/config.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/model/divisors.h"

namespace folio {
namespace {

constexpr double kMaxSize = 1 << 30;

}  // namespace

Activation GptConfig::activation() const {
  if (activation_function == "gelu_new") return Activation::kGeluNew;
  if (activation_function == "gelu") return Activation::kGelu;
  FOLIO_CHECK(activation_function == "relu", "activation_function was not validated");
  return Activation::kRelu;
}

std::vector<Field> GptConfig::Fields() {
  return {
      Field{"vocab_size", &vocab_size, "tokens in the vocabulary; set from the data when training",
            1, kMaxSize},
      Field{"n_positions", &n_positions, "longest context the model can see", 1, kMaxSize},
      Field{"n_embd", &n_embd, "channels of the residual stream", 1, kMaxSize},
      Field{"n_layer", &n_layer, "transformer blocks", 1, 65535},
      Field{"n_head", &n_head, "attention heads; must divide n_embd", 1, kMaxSize},
      Field{"n_inner", &n_inner, "width of the feed-forward layer; null means 4 n_embd", 1,
            kMaxSize},
      Field{"activation_function", &activation_function, "of the feed-forward layer"}.Choices(
          {"gelu_new", "gelu", "relu"}),
      Field{"layer_norm_epsilon", &layer_norm_epsilon, "added to the variance", 0, 1},
      Field{"position_embedding", &position_embedding, "how positions enter"}.Choices(
          {"learned", "sinusoidal"}),
      Field{"norm_position", &norm_position,
            "LayerNorm before each sublayer (GPT-2) or after each residual sum"}
          .Choices({"pre", "post"}),
      Field{"bias", &bias, "biases in Linear and LayerNorm layers"},
      Field{"attention_bias", &attention_bias,
            "biases of c_attn and its c_proj; null follows bias"},
      Field{"mlp_bias", &mlp_bias, "biases of c_fc and its c_proj; null follows bias"},
      Field{"layer_norm_bias", &layer_norm_bias, "biases of the LayerNorms; null follows bias"},
      Field{"lm_head_bias", &lm_head_bias, "a bias for each logit"},
      Field{"tie_word_embeddings", &tie_word_embeddings, "use wte as the head's matrix too"},
      Field{"embd_pdrop", &embd_pdrop, "dropout after the embeddings", 0, 0.999},
      Field{"attn_pdrop", &attn_pdrop, "dropout of attention weights", 0, 0.999},
      Field{"resid_pdrop", &resid_pdrop, "dropout of what joins the residual stream", 0, 0.999},
      Field{"init", &init, "how weights start"}.Choices({"normal", "xavier_uniform"}),
      Field{"initializer_range", &initializer_range, "standard deviation for init = normal", 0,
            100},
      Field{"bos_token_id", &bos_token_id, "token that begins a text, if any", 0, kMaxSize},
      Field{"eos_token_id", &eos_token_id, "token that ends a text, if any", 0, kMaxSize},
  };
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
