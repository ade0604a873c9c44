#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/base/fields.h"
#include "folio/model/shard.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Columns [begin, begin + width) of a matrix.
struct ColumnRange {
  int64_t begin = 0, width = 0;

  int64_t end() const { return begin + width; }
};

// The heads of self-attention, and the places of queries, keys and values in rows of the fused
// projection: q | k | v, each head by head. H / K heads of queries share one of keys and values: J.
// Ainslie et al., arXiv:2305.13245.
struct HeadLayout {
  int64_t query_heads = 1;  // H
  int64_t kv_heads = 1;     // K, divides H
  int64_t head_dim = 1;     // D

  int64_t q_width() const { return query_heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }  // of k, and of v
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  ColumnRange q() const { return {0, q_width()}; }
  ColumnRange k() const { return {q_width(), kv_width()}; }
  ColumnRange v() const { return {q_width() + kv_width(), kv_width()}; }
  ColumnRange qk() const { return {0, q_width() + kv_width()}; }
  std::array<ColumnRange, 3> columns() const { return {q(), k(), v()}; }
  // The columns of one head of queries, and of the keys and values that it reads.
  ColumnRange q(int64_t head) const { return {head * head_dim, head_dim}; }
  ColumnRange k(int64_t head) const { return OfKvHead(k(), head); }
  ColumnRange v(int64_t head) const { return OfKvHead(v(), head); }

  // The layout of a shard, which has its share of both kinds of heads.
  HeadLayout ShardOf(const Shard& shard) const {
    return {shard.Size(query_heads), shard.Size(kv_heads), head_dim};
  }
  // Pages of the KV cache, of R positions each (ops.h).
  Shape Pages(int64_t pages, int64_t R) const { return {pages, kv_heads, 2, R, head_dim}; }

 private:
  ColumnRange OfKvHead(const ColumnRange& all, int64_t head) const {
    return {all.begin + head / (query_heads / kv_heads) * head_dim, head_dim};
  }
};

// What the attention of a layer sees, and how positions enter it.
struct LayerKind {
  int64_t window = 0;  // positions that a token attends to, itself among them; 0 for all
  std::optional<size_t> rotary = {};  // which of the tables of rotary angles (layers/rotary.h)
};

// The channels that open the gates of `smear` and of `value_embeddings`, the first of a row.
inline constexpr int64_t kSmearChannels = 24, kValueChannels = 12;

// The architecture of a decoder: GPT-2's by default. Names are those of Hugging Face's config.json
// where it has one.
struct GptConfig {
  std::string model_type = "";                   // of families.h; "" for the first that has it all
  int64_t vocab_size = 50257;                    // V
  int64_t n_positions = 1024;                    // P, the longest context
  int64_t n_embd = 768;                          // C
  int64_t n_layer = 12;                          // L
  int64_t n_head = 12;                           // H, divides C unless head_dim is given
  std::optional<int64_t> n_kv_head = {};         // K, divides H, null means H
  std::optional<int64_t> head_dim = {};          // D, null means C / H
  std::optional<int64_t> n_inner = {};           // F, null means 4C
  std::string activation_function = "gelu_new";  // a name of kActivations (ops.h)
  std::string mlp = "plain";                     // plain | gated
  std::string norm = "layer";                    // layer | rms | rms_one_plus | rms_no_weight
  double layer_norm_epsilon = 1e-5;
  bool scale_attn_weights = true;                // scores are divided by sqrt(D)
  bool scale_attn_by_inverse_layer_idx = false;  // and by the number of the block, from 1
  bool reorder_and_upcast_attn = false;          // attention in float32: it always is here
  double attention_scale = 0;                    // of the scores; 0 means 1 / sqrt(D)
  double attention_cap = 0;                      // c: scores become c tanh(score / c); 0 for none
  std::string qk_norm = "none";                  // none | head | full | after_rotary
  double qk_scale = 1;                           // of queries and keys after qk_norm
  std::string position_embedding = "learned";    // learned | sinusoidal | rotary | none
  double rope_theta = 10000;
  std::optional<int64_t> rotary_dim = {};  // r, of D; null means D
  std::string rope_scaling = "default";    // default | linear | llama3 | yarn | longrope
  double rope_factor = 1;
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4;  // of llama3
  double rope_beta_fast = 32, rope_beta_slow = 1;              // of yarn
  double rope_attention_factor = 0;                     // of yarn and longrope; 0 as they say
  std::optional<int64_t> rope_original_positions = {};  // null means P
  std::string rope_short_factors = "", rope_long_factors = "";  // of longrope: "1,1.5", r/2 numbers
  int64_t no_rope_every = 0;                   // n: layers n, 2n, ... have no rotary positions
  std::optional<int64_t> sliding_window = {};  // of layers of the kind w
  std::string layer_kinds = "f";               // w and f, repeated: windows and full attention
  double rope_window_theta = 0;                // of layers w, not scaled; 0: as all others
  std::string norm_position = "pre";           // pre | post | branch | both
  std::string block = "serial";                // serial | parallel | parallel_one_norm
  double embedding_scale = 1;                  // what embeddings of tokens are multiplied with
  bool embedding_norm = false;                 // RMSNorm without weight of embeddings
  bool smear = false;                          // of the token before, in what a block sees first
  bool residual_lambdas = false;               // before each block: l_r stream + l_0 embeddings
  bool value_embeddings = false;               // tokens' own values, in every second layer
  bool backout = false;                        // before ln_f: less of the stream in the middle
  double residual_scale = 1;                   // what each sublayer's result is
  double logit_scale = 1;                      // what logits are
  double logit_cap = 0;                        // as attention_cap
  bool causal = true;                          // false: each token attends to all
  bool bias = true;
  std::optional<bool> attention_bias = {};   // null means `bias`
  std::optional<bool> qkv_bias = {};         // of c_attn; null means attention_bias
  std::optional<bool> mlp_bias = {};         // null means `bias`
  std::optional<bool> layer_norm_bias = {};  // null means `bias`
  bool lm_head_bias = false;
  bool tie_word_embeddings = true;
  double embd_pdrop = 0;
  double attn_pdrop = 0;
  double resid_pdrop = 0;
  double mlp_pdrop = 0;
  double sublayer_pdrop = 0;
  std::string init = "normal";  // normal | xavier_uniform | xavier_uniform_split | nanochat
  double initializer_range = 0.02;
  bool init_zero_positions = false;
  std::string init_scaled_residuals = "true";  // true | false | mlp: of mlp.c_proj alone
  std::optional<int64_t> bos_token_id = {};
  std::optional<int64_t> eos_token_id = {};
  std::vector<int64_t> more_eos_token_ids = {};  // that files name beside it; no setting

  int64_t head_size() const { return head_dim.value_or(n_embd / n_head); }  // D
  HeadLayout head_layout() const { return {n_head, n_kv_head.value_or(n_head), head_size()}; }
  int64_t inner() const { return n_inner.value_or(4 * n_embd); }  // F
  bool gated() const { return mlp == "gated"; }
  int64_t up_width() const { return gated() ? 2 * inner() : inner(); }  // gate | up
  bool has_attention_bias() const { return attention_bias.value_or(bias); }
  bool has_qkv_bias() const { return qkv_bias.value_or(has_attention_bias()); }
  bool has_mlp_bias() const { return mlp_bias.value_or(bias); }
  bool has_layer_norm_bias() const { return layer_norm() && layer_norm_bias.value_or(bias); }
  bool learned_positions() const { return position_embedding == "learned"; }
  bool has_qk_norm() const { return qk_norm != "none"; }
  bool full_qk_norm() const { return qk_norm == "full"; }
  bool norm_after_rotary() const { return qk_norm == "after_rotary"; }
  bool rotary() const { return position_embedding == "rotary"; }
  int64_t rotary_width() const { return rotary_dim.value_or(head_size()); }  // r
  int64_t rope_positions() const { return rope_original_positions.value_or(n_positions); }
  // What longrope divides the frequencies by: the long factors if the model reads more positions
  // than its original context has, however few a text has. Empty where they are no numbers.
  bool beyond_original() const { return n_positions > rope_positions(); }
  std::vector<float> rope_divisors(bool beyond) const;
  LayerKind layer_kind(int64_t layer) const;
  // Every second layer, the last among them.
  bool has_value_embedding(int64_t layer) const {
    return value_embeddings && (n_layer - 1 - layer) % 2 == 0;
  }
  int64_t middle_layer() const { return n_layer / 2; }  // whose result `backout` takes away
  // Where a block's norms stand: on what a sublayer reads, on its result before that joins the
  // stream, or (post) on the sum.
  bool pre_norm() const { return norm_position == "pre" || norm_position == "both"; }
  bool branch_norm() const { return norm_position == "branch" || norm_position == "both"; }
  bool post_norm() const { return norm_position == "post"; }
  bool parallel() const { return block != "serial"; }
  bool one_norm() const { return block == "parallel_one_norm"; }
  bool layer_norm() const { return norm == "layer"; }
  bool norm_weight() const { return norm != "rms_no_weight"; }
  double norm_offset() const { return norm == "rms_one_plus" ? 1 : 0; }  // of its weights
  Activation activation() const;
  double score_scale(int64_t layer) const;  // that a block's scores are multiplied with

  std::vector<Field> Fields() {
    constexpr double kMaxSize = 1 << 30;
    return {
        Field{"model_type", &model_type,
              "model type (as in Hugging Face's config.json) to write; default: the first that can "
              "represent the model"},
        Field{"vocab_size", &vocab_size,
              "tokens in the vocabulary; set from the data when training", 1, kMaxSize},
        Field{"n_positions", &n_positions, "maximum context in tokens", 1, kMaxSize},
        Field{"n_embd", &n_embd, "channels of the residual stream", 1, kMaxSize},
        Field{"n_layer", &n_layer, "transformer blocks", 1, 65535},
        Field{"n_head", &n_head, "attention heads; must divide n_embd where head_dim is null", 1,
              kMaxSize},
        Field{
            "n_kv_head", &n_kv_head,
            "key and value heads, each shared by n_head / n_kv_head query heads; null means n_head",
            1, kMaxSize},
        Field{"head_dim", &head_dim, "size of a head; null means n_embd / n_head", 1, kMaxSize},
        Field{"n_inner", &n_inner, "width of the feed-forward layer; null means 4 n_embd", 1,
              kMaxSize},
        Field{"activation_function", &activation_function, "activation of the feed-forward layer"}
            .Choices(ActivationNames()),
        Field{"mlp", &mlp, "feed-forward layer: plain, or gated by the activation"}.Choices(
            {"plain", "gated"}),
        Field{"norm", &norm,
              "LayerNorm, or RMSNorm: with weights, with 1 + weights, or without weights"}
            .Choices({"layer", "rms", "rms_one_plus", "rms_no_weight"}),
        Field{"layer_norm_epsilon", &layer_norm_epsilon, "added to the variance", 0, 1},
        Field{"scale_attn_weights", &scale_attn_weights,
              "divide attention scores by the square root of the size of a head"},
        Field{"scale_attn_by_inverse_layer_idx", &scale_attn_by_inverse_layer_idx,
              "divide attention scores of block i also by i, counted from 1"},
        Field{"reorder_and_upcast_attn", &reorder_and_upcast_attn,
              "for other programs: compute attention in float32, which folio always does"},
        Field{"attention_scale", &attention_scale,
              "factor of attention scores; 0 means 1 / sqrt(D)", 0, 1e6},
        Field{"attention_cap", &attention_cap,
              "c: attention scores become c tanh(score / c); 0: no cap", 0, 1e6},
        Field{"qk_norm", &qk_norm,
              "RMSNorm of queries and keys: of each head, of all heads together (full), or of each "
              "head after rotary positions"}
            .Choices({"none", "head", "full", "after_rotary"}),
        Field{"qk_scale", &qk_scale, "factor of the result of qk_norm", 0, 1e6},
        Field{"position_embedding", &position_embedding,
              "positions are added to the embeddings, or rotate queries and keys (rotary)"}
            .Choices({"learned", "sinusoidal", "rotary", "none"}),
        Field{"rope_theta", &rope_theta, "base of the frequencies of rotary positions", 1, 1e12},
        Field{"rotary_dim", &rotary_dim,
              "dimensions of a head that rotary positions rotate; null means all", 2, kMaxSize},
        Field{"rope_scaling", &rope_scaling,
              "method that extends rotary positions beyond the original context"}
            .Choices({"default", "linear", "llama3", "yarn", "longrope"}),
        Field{"rope_factor", &rope_factor, "factor of rope_scaling", 1, 1e6},
        Field{"rope_low_freq_factor", &rope_low_freq_factor,
              "llama3: wavelengths above the original context divided by this are scaled", 0, 1e6},
        Field{"rope_high_freq_factor", &rope_high_freq_factor,
              "llama3: wavelengths below the original context divided by this are not scaled", 0,
              1e6},
        Field{"rope_beta_fast", &rope_beta_fast,
              "yarn: pairs with more rotations in the original context are not scaled", 0, 1e6},
        Field{"rope_beta_slow", &rope_beta_slow,
              "yarn: pairs with fewer rotations in the original context are scaled", 0, 1e6},
        Field{"rope_attention_factor", &rope_attention_factor,
              "factor of rotated queries and keys; 0 means 0.1 ln(rope_factor) + 1 for yarn, "
              "sqrt(1 + ln(rope_factor) / ln(rope_original_positions)) for longrope",
              0, 1e6},
        Field{"rope_original_positions", &rope_original_positions,
              "context before rope_scaling; null means n_positions", 1, kMaxSize},
        Field{"rope_short_factors", &rope_short_factors,
              "longrope: divisor of each pair's frequency if n_positions is at most "
              "rope_original_positions: 1,1.5"},
        Field{"rope_long_factors", &rope_long_factors,
              "longrope: the same if n_positions is larger"},
        Field{"no_rope_every", &no_rope_every,
              "n: layers n, 2n, 3n ... have no rotary positions; 0: all have", 0, 65535},
        Field{"sliding_window", &sliding_window,
              "number of positions that layers of kind w attend to, including the token's own", 1,
              kMaxSize},
        Field{"layer_kinds", &layer_kinds,
              "kinds of the layers, repeated: f for full attention, w for a sliding window"},
        Field{"rope_window_theta", &rope_window_theta,
              "rope_theta of layers of kind w, without rope_scaling; 0: the same as other layers",
              0, 1e12},
        Field{"norm_position", &norm_position,
              "norms before each sublayer (pre, GPT-2), after each residual sum (post), on the "
              "output of each sublayer (branch), or before and on the output (both)"}
            .Choices({"pre", "post", "branch", "both"}),
        Field{"block", &block,
              "attention before the feed-forward layer (serial), or both in parallel with two "
              "norms or one"}
            .Choices({"serial", "parallel", "parallel_one_norm"}),
        Field{"embedding_scale", &embedding_scale, "factor of the embeddings", -1e6, 1e6},
        Field{"embedding_norm", &embedding_norm, "apply RMSNorm without weights to the embeddings"},
        Field{"smear", &smear,
              "add the embedding of the previous token to each, through a learned gate"},
        Field{
            "residual_lambdas", &residual_lambdas,
            "each block reads the residual stream and the embeddings, each with a learned factor"},
        Field{"value_embeddings", &value_embeddings,
              "every second layer up to the last has an embedding table that is added to the "
              "values of attention through learned gates"},
        Field{"backout", &backout,
              "subtract the residual stream after the middle block, with a learned factor, before "
              "ln_f"},
        Field{"residual_scale", &residual_scale, "factor of the output of each sublayer", -1e6,
              1e6},
        Field{"logit_scale", &logit_scale, "factor of the logits", -1e6, 1e6},
        Field{"logit_cap", &logit_cap, "c: logits become c tanh(logit / c); 0: no cap", 0, 1e6},
        Field{"causal", &causal,
              "tokens attend only to earlier tokens; false: to all (bidirectional), and the model "
              "cannot generate text"},
        Field{"bias", &bias, "biases in Linear and LayerNorm layers"},
        Field{"attention_bias", &attention_bias,
              "biases of c_attn and its c_proj; null follows bias"},
        Field{"qkv_bias", &qkv_bias, "biases of c_attn; null follows attention_bias"},
        Field{"mlp_bias", &mlp_bias, "biases of c_fc and its c_proj; null follows bias"},
        Field{"layer_norm_bias", &layer_norm_bias, "biases of the LayerNorms; null follows bias"},
        Field{"lm_head_bias", &lm_head_bias, "a bias for each logit"},
        Field{"tie_word_embeddings", &tie_word_embeddings,
              "use wte as the matrix of the head, too"},
        Field{"embd_pdrop", &embd_pdrop, "dropout after the embeddings", 0, 1}.MaxExcluded(),
        Field{"attn_pdrop", &attn_pdrop, "dropout of attention weights", 0, 1}.MaxExcluded(),
        Field{"resid_pdrop", &resid_pdrop,
              "dropout of the output of each sublayer, before the residual sum", 0, 1}
            .MaxExcluded(),
        Field{"mlp_pdrop", &mlp_pdrop,
              "dropout inside the feed-forward layer, after the activation", 0, 1}
            .MaxExcluded(),
        Field{"sublayer_pdrop", &sublayer_pdrop,
              "dropout of the input of each sublayer, after the LayerNorm of a pre-norm block", 0,
              1}
            .MaxExcluded(),
        Field{"init", &init,
              "initialisation of matrices; Xavier treats c_attn as one matrix, or split into q, k "
              "and v; nanochat's uses one rule for each kind of matrix"}
            .Choices({"normal", "xavier_uniform", "xavier_uniform_split", "nanochat"}),
        Field{"initializer_range", &initializer_range, "standard deviation for init = normal", 0,
              100},
        Field{"init_zero_positions", &init_zero_positions,
              "initialise learned positions with zeros"},
        Field{"init_scaled_residuals", &init_scaled_residuals,
              "for init = normal: divide the deviation of residual projections by sqrt(2 n_layer): "
              "of both, of neither, or only of mlp.c_proj"}
            .Choices({"true", "false", "mlp"}),
        Field{"bos_token_id", &bos_token_id, "token that begins a text, if any", 0, kMaxSize},
        Field{"eos_token_id", &eos_token_id, "token that ends a text, if any", 0, kMaxSize},
    };
  }

  // Every place of dropout.
  static constexpr std::array<double GptConfig::*, 5> DropoutRates() {
    return {&GptConfig::embd_pdrop, &GptConfig::attn_pdrop, &GptConfig::resid_pdrop,
            &GptConfig::mlp_pdrop, &GptConfig::sublayer_pdrop};
  }

  // Throws a kUsage Error whose `what` begins with `where` if the fields contradict each other.
  void Validate(const std::string& where) const;

  bool operator==(const GptConfig&) const = default;

 private:
  static std::vector<std::string> ActivationNames();
};

// Columns of B sequences of T rows.
inline SequenceView View(const Tensor& rows, int64_t B, int64_t T, const ColumnRange& columns) {
  return {rows, B, T, columns.begin, columns.width};
}

// Throws a kUsage Error unless each of `ids` is a token of a model with V: from 0 on, or from
// `lowest`. `name` has them: "the prompt".
void RequireTokens(std::span<const int32_t> ids, int64_t V, std::string_view name,
                   int32_t lowest = 0);

// The divisors of n on either side of d, for people: "2 or 5", or "4" if d is one itself. REQUIRES:
// n >= 1, d >= 1.
std::string NearestDivisors(int64_t n, int64_t d);

// A size under the name that people know it by.
struct NamedSize {
  std::string_view name;
  int64_t value = 0;
};

// Throws a kUsage Error that begins with `where` unless the size is positive and below 2^30.
void CheckSize(std::string_view where, NamedSize size);
// The same for both, and unless `part` divides `whole`; it names both numbers and the nearest that
// would do.
void CheckDivides(std::string_view where, NamedSize part, NamedSize whole);

}  // namespace folio
