#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/base/fields.h"
#include "folio/tensor/tensor.h"

namespace folio {

// A rank's share of each layer under tensor parallelism (M. Shoeybi et al., Megatron-LM,
// arXiv:1909.08053): the shard has some of the heads, of the columns of c_fc and of the tokens of
// the vocabulary, and all of the rest.
struct Shard {
  int64_t index = 0, count = 1;

  bool whole() const { return count == 1; }
  // The shard has Size(n) of n things, from Begin(n) on.
  int64_t Begin(int64_t n) const { return n * index / count; }
  int64_t Size(int64_t n) const { return n * (index + 1) / count - Begin(n); }
  bool operator==(const Shard&) const = default;
};

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

// Kinds of parts that a model may have. Their names are those of settings and of folio's
// config.json.
enum class MlpKind : uint8_t { kPlain, kGated };
constexpr auto NamesOf(MlpKind) {
  return std::to_array<std::string_view>({"plain", "gated"});
}

enum class NormKind : uint8_t { kLayer, kRms, kRmsOnePlus, kRmsNoWeight };
constexpr auto NamesOf(NormKind) {
  return std::to_array<std::string_view>({"layer", "rms", "rms_one_plus", "rms_no_weight"});
}

enum class QkNorm : uint8_t { kNone, kHead, kFull, kAfterRotary };
constexpr auto NamesOf(QkNorm) {
  return std::to_array<std::string_view>({"none", "head", "full", "after_rotary"});
}

enum class PositionKind : uint8_t { kLearned, kSinusoidal, kRotary, kNone };
constexpr auto NamesOf(PositionKind) {
  return std::to_array<std::string_view>({"learned", "sinusoidal", "rotary", "none"});
}

enum class RopeScaling : uint8_t { kDefault, kLinear, kLlama3, kYarn, kLongRope };
constexpr auto NamesOf(RopeScaling) {
  return std::to_array<std::string_view>({"default", "linear", "llama3", "yarn", "longrope"});
}

enum class NormPosition : uint8_t { kPre, kPost, kBranch, kBoth };
constexpr auto NamesOf(NormPosition) {
  return std::to_array<std::string_view>({"pre", "post", "branch", "both"});
}

enum class BlockKind : uint8_t { kSerial, kParallel, kParallelOneNorm };
constexpr auto NamesOf(BlockKind) {
  return std::to_array<std::string_view>({"serial", "parallel", "parallel_one_norm"});
}

enum class InitMethod : uint8_t { kNormal, kXavierUniform, kXavierUniformSplit, kNanochat };
constexpr auto NamesOf(InitMethod) {
  return std::to_array<std::string_view>(
      {"normal", "xavier_uniform", "xavier_uniform_split", "nanochat"});
}

// The residual projections whose first deviation is divided by sqrt(2 n_layer).
enum class ScaledResiduals : uint8_t { kAll, kNone, kMlp };
constexpr auto NamesOf(ScaledResiduals) {
  return std::to_array<std::string_view>({"true", "false", "mlp"});
}

// The kinds of attention that layers have, in turn: "wwf" is two with a window, and one without.
enum class AttentionKind : char { kFull = 'f', kWindow = 'w' };
using LayerKinds = std::vector<AttentionKind>;
// One letter for each, and back. REQUIRES: letters are f and w.
std::string LayerKindsText(const LayerKinds& kinds);
LayerKinds LayerKindsOf(std::string_view letters);

// How the sublayers of a block join the stream.
struct SublayerLayout {
  bool pre_norm = false;     // a sublayer reads a norm of the stream
  bool branch_norm = false;  // its result is normed before it joins the stream
  bool post_norm = false;    // the sum is normed
  bool parallel = false;     // both sublayers read the stream before the block
  bool one_norm = false;     // and the same norm of it

  bool has_ln_1() const { return pre_norm || post_norm; }
  bool has_ln_2() const { return has_ln_1() && !one_norm; }
};

// The layout of a layer: all that may differ between the layers of a model.
struct LayerLayout {
  SublayerLayout sublayers = {};
  MlpKind mlp = MlpKind::kPlain;
  int64_t window = 0;  // positions that a token attends to, itself among them; 0 for all
  std::optional<size_t> rotary = {};  // index of its table of rotary angles (layers/rotary.h)
  double score_scale = 1;             // factor of attention scores
  bool value_embedding = false;       // tokens have values of their own in it
};

// The channels that open the gates of `smear` and of `value_embeddings`, the first of a row.
inline constexpr int64_t kSmearChannels = 24, kValueChannels = 12;

struct GptConfig;

// A setting of a model, with all that families, ranks, commands and the page do with it.
struct GptRow : Field {
  enum Role : unsigned {
    kSwitch = 1,      // a family's models have GptConfig's default, unless its table says otherwise
    kDetail = 2,      // it is compared like a switch where a family's file has it
    kOfTraining = 4,  // it may change where training resumes
    kNotSharded = 8,  // ranks cannot share the layers of a model that differs from the default
  };

  using Fact = std::function<std::string(const GptConfig& config)>;

  unsigned roles;
  std::string_view page = "";   // its name in the page's description of a block; empty: not there
  std::string_view title = "";  // the title of its line in `folio inspect model`
  Fact fact = {};               // that line; empty: no line

  GptRow(Field field, unsigned its_roles = 0) : Field(std::move(field)), roles(its_roles) {}
  GptRow OnPage(std::string_view name) && {
    page = name;
    return std::move(*this);
  }
  GptRow Says(std::string_view heading, Fact text) && {
    title = heading;
    fact = std::move(text);
    return std::move(*this);
  }
};

// The architecture of a decoder: GPT-2's by default. Names are those of Hugging Face's config.json
// where it has one. Rows() (config.cc) says what each field means, and its range; the letters are
// the sizes that shapes are written with.
struct GptConfig {
  std::string model_type = "";            // empty: the first family that can express the model
  int64_t vocab_size = 50257;             // V
  int64_t n_positions = 1024;             // P
  int64_t n_embd = 768;                   // C
  int64_t n_layer = 12;                   // L
  int64_t n_head = 12;                    // H
  std::optional<int64_t> n_kv_head = {};  // K
  std::optional<int64_t> head_dim = {};   // D
  std::optional<int64_t> n_inner = {};    // F
  Activation activation_function = Activation::kGeluNew;
  MlpKind mlp = MlpKind::kPlain;
  NormKind norm = NormKind::kLayer;
  double layer_norm_epsilon = 1e-5;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;
  double attention_scale = 0;
  double attention_cap = 0;
  QkNorm qk_norm = QkNorm::kNone;
  double qk_scale = 1;
  PositionKind position_embedding = PositionKind::kLearned;
  double rope_theta = 10000;
  std::optional<int64_t> rotary_dim = {};  // r
  RopeScaling rope_scaling = RopeScaling::kDefault;
  double rope_factor = 1;
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4;
  double rope_beta_fast = 32, rope_beta_slow = 1;
  double rope_attention_factor = 0;
  std::optional<int64_t> rope_original_positions = {};
  std::vector<double> rope_short_factors = {}, rope_long_factors = {};  // (r/2) each
  int64_t no_rope_every = 0;
  std::optional<int64_t> sliding_window = {};
  LayerKinds layer_kinds = {AttentionKind::kFull};
  double rope_window_theta = 0;
  NormPosition norm_position = NormPosition::kPre;
  BlockKind block = BlockKind::kSerial;
  double embedding_scale = 1;
  bool embedding_norm = false;
  bool smear = false;
  bool residual_lambdas = false;
  bool value_embeddings = false;
  bool backout = false;
  double residual_scale = 1;
  double logit_scale = 1;
  double logit_cap = 0;
  bool causal = true;
  bool bias = true;
  std::optional<bool> attention_bias = {};
  std::optional<bool> qkv_bias = {};
  std::optional<bool> mlp_bias = {};
  std::optional<bool> layer_norm_bias = {};
  bool lm_head_bias = false;
  bool tie_word_embeddings = true;
  double embd_pdrop = 0;
  double attn_pdrop = 0;
  double resid_pdrop = 0;
  double mlp_pdrop = 0;
  double sublayer_pdrop = 0;
  InitMethod init = InitMethod::kNormal;
  double initializer_range = 0.02;
  bool init_zero_positions = false;
  ScaledResiduals init_scaled_residuals = ScaledResiduals::kAll;
  std::optional<int64_t> bos_token_id = {};
  std::optional<int64_t> eos_token_id = {};
  std::vector<int64_t> more_eos_token_ids = {};  // further ones of files; no setting

  int64_t head_size() const { return head_dim.value_or(n_embd / n_head); }  // D
  HeadLayout head_layout() const { return {n_head, n_kv_head.value_or(n_head), head_size()}; }
  int64_t inner() const { return n_inner.value_or(4 * n_embd); }  // F
  bool gated() const { return mlp == MlpKind::kGated; }
  int64_t up_width() const { return gated() ? 2 * inner() : inner(); }  // gate | up
  bool has_attention_bias() const { return attention_bias.value_or(bias); }
  bool has_qkv_bias() const { return qkv_bias.value_or(has_attention_bias()); }
  bool has_mlp_bias() const { return mlp_bias.value_or(bias); }
  bool has_layer_norm_bias() const { return layer_norm() && layer_norm_bias.value_or(bias); }
  bool learned_positions() const { return position_embedding == PositionKind::kLearned; }
  bool has_qk_norm() const { return qk_norm != QkNorm::kNone; }
  bool full_qk_norm() const { return qk_norm == QkNorm::kFull; }
  bool norm_after_rotary() const { return qk_norm == QkNorm::kAfterRotary; }
  bool rotary() const { return position_embedding == PositionKind::kRotary; }
  int64_t rotary_width() const { return rotary_dim.value_or(head_size()); }  // r
  int64_t rope_positions() const { return rope_original_positions.value_or(n_positions); }
  // Returns true if the model reads more positions than its original context has: longrope then
  // divides the frequencies by the long factors, however short a text is.
  bool beyond_original() const { return n_positions > rope_positions(); }
  std::vector<float> rope_divisors(bool beyond) const;
  LayerLayout layer(int64_t layer) const;
  SublayerLayout sublayer_layout() const {  // of every layer
    constexpr auto kNorms =
        std::to_array<SublayerLayout>({{.pre_norm = true},
                                       {.post_norm = true},
                                       {.branch_norm = true},
                                       {.pre_norm = true, .branch_norm = true}});
    SublayerLayout layout = kNorms[static_cast<size_t>(norm_position)];
    layout.parallel = block != BlockKind::kSerial;
    layout.one_norm = block == BlockKind::kParallelOneNorm;
    return layout;
  }
  // Returns true if layers of kind w have a window.
  bool has_window() const;
  int64_t middle_layer() const { return n_layer / 2; }  // `backout` subtracts its result
  bool layer_norm() const { return norm == NormKind::kLayer; }
  bool norm_weight() const { return norm != NormKind::kRmsNoWeight; }
  double norm_offset() const { return norm == NormKind::kRmsOnePlus ? 1 : 0; }  // of its weights

  std::vector<GptRow> Rows();
  std::vector<Field> Fields();  // the same, as settings

  // The rates of all places of dropout.
  static constexpr std::array<double GptConfig::*, 5> DropoutRates() {
    return {&GptConfig::embd_pdrop, &GptConfig::attn_pdrop, &GptConfig::resid_pdrop,
            &GptConfig::mlp_pdrop, &GptConfig::sublayer_pdrop};
  }

  // Throws a kUsage Error whose `what` begins with `where` if the fields contradict each other.
  void Validate(const std::string& where) const;

  bool operator==(const GptConfig&) const = default;

 private:
  double score_scale(int64_t layer) const;
};

// Columns of B sequences of T rows.
inline SequenceView View(const Tensor& rows, int64_t B, int64_t T, const ColumnRange& columns) {
  return {rows, B, T, columns.begin, columns.width};
}

// Throws a kUsage Error unless each of `ids` is a token of a model with V tokens, or at least
// `lowest`. The message names them by `name`: "the prompt".
void RequireTokens(std::span<const int32_t> ids, int64_t V, std::string_view name,
                   int32_t lowest = 0);

// Returns the divisors of n next to d as text: "2 or 5", or "4" if d is one itself. REQUIRES: n >=
// 1, d >= 1.
std::string NearestDivisors(int64_t n, int64_t d);

// A size, and its name in messages.
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
