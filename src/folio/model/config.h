#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/base/fields.h"

namespace folio {

// What a GPT is. Names are those of Hugging Face's config.json where it has one.
struct GptConfig {
  int64_t vocab_size = 50257;                    // V
  int64_t n_positions = 1024;                    // P, the longest context
  int64_t n_embd = 768;                          // C
  int64_t n_layer = 12;                          // L
  int64_t n_head = 12;                           // H, divides C
  std::optional<int64_t> n_inner = {};           // F, null means 4C
  std::string activation_function = "gelu_new";  // gelu_new | gelu | relu
  double layer_norm_epsilon = 1e-5;
  std::string position_embedding = "learned";  // learned | sinusoidal
  std::string norm_position = "pre";           // pre | post
  bool bias = true;
  std::optional<bool> attention_bias = {};   // null means `bias`
  std::optional<bool> mlp_bias = {};         // null means `bias`
  std::optional<bool> layer_norm_bias = {};  // null means `bias`
  bool lm_head_bias = false;
  bool tie_word_embeddings = true;
  double embd_pdrop = 0;
  double attn_pdrop = 0;
  double resid_pdrop = 0;
  std::string init = "normal";  // normal | xavier_uniform
  double initializer_range = 0.02;
  std::optional<int64_t> bos_token_id = {};
  std::optional<int64_t> eos_token_id = {};

  int64_t head_size() const { return n_embd / n_head; }           // D
  int64_t inner() const { return n_inner.value_or(4 * n_embd); }  // F
  bool has_attention_bias() const { return attention_bias.value_or(bias); }
  bool has_mlp_bias() const { return mlp_bias.value_or(bias); }
  bool has_layer_norm_bias() const { return layer_norm_bias.value_or(bias); }
  bool learned_positions() const { return position_embedding == "learned"; }
  bool pre_norm() const { return norm_position == "pre"; }
  Activation activation() const;

  std::vector<Field> Fields();

  // Throws a kUsage Error whose `what` begins with `where` if the fields contradict each other.
  void Validate(const std::string& where) const;

  bool operator==(const GptConfig&) const = default;
};

}  // namespace folio
