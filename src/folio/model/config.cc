#include "folio/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

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

// "RMSNorm, pre: before each sublayer"
std::string NormText(const GptConfig& config) {
  const std::string_view places =
      config.norm_position == NormPosition::kPre    ? "pre: before each sublayer"
      : config.norm_position == NormPosition::kPost ? "post: after each residual sum"
      : config.norm_position == NormPosition::kBranch
          ? "branch: on each sublayer's result"
          : "both: before each sublayer and on its result";
  const std::string_view kind = config.norm == NormKind::kLayer        ? "LayerNorm"
                                : config.norm == NormKind::kRms        ? "RMSNorm"
                                : config.norm == NormKind::kRmsOnePlus ? "RMSNorm with 1 + weights"
                                                                       : "RMSNorm without weights";
  return fmt::format("{}, {}{}", kind, places,
                     config.sublayer_layout().one_norm ? ", shared by both" : "");
}

// Lines of `folio inspect model`: a number that is not `plain`, and a text of models that have a
// switch on.
GptRow::Fact NumberOf(double GptConfig::*member, const char* format, double plain) {
  return [=](const GptConfig& config) {
    const double number = config.*member;
    return number == plain ? "" : fmt::format(fmt::runtime(format), number);
  };
}

GptRow::Fact Where(bool GptConfig::*on, const char* text) {
  return [=](const GptConfig& config) { return std::string(config.*on ? text : ""); };
}

Field LayerKindsField(std::string key, LayerKinds* value, std::string help) {
  const auto text = [](const void* kinds) {
    return LayerKindsText(*static_cast<const LayerKinds*>(kinds));
  };
  const auto parse = [](const std::string& letters, void* kinds) {
    if (letters.empty() || letters.find_first_not_of("fw") != letters.npos) return false;
    *static_cast<LayerKinds*>(kinds) = LayerKindsOf(letters);
    return true;
  };
  return {std::move(key), Field::Parsed{value, text, parse, "letters f and w, such as wwf"},
          std::move(help)};
}

// LongRoPE has a divisor for each pair, in the original context and beyond it.
void ValidateLongRope(const GptConfig& config, const std::string& where) {
  if (config.rope_scaling != RopeScaling::kLongRope) return;
  const int64_t pairs = config.rotary_width() / 2;
  for (const auto& [name, numbers] : {std::pair{"rope_short_factors", &config.rope_short_factors},
                                      std::pair{"rope_long_factors", &config.rope_long_factors}}) {
    const int64_t found = std::ranges::count_if(*numbers, [](double number) {
      return static_cast<float>(number) > 0 && std::isfinite(static_cast<float>(number));
    });
    if (found == pairs && found == std::ssize(*numbers)) continue;
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

// A list of rows, into which they are moved.
template <class... Rows>
std::vector<GptRow> Moved(Rows&&... rows) {
  std::vector<GptRow> all;
  all.reserve(sizeof...(rows));
  (all.emplace_back(std::forward<Rows>(rows)), ...);
  return all;
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

std::vector<GptRow> GptConfig::Rows() {
  using enum GptRow::Role;
  using C = GptConfig;
  constexpr double kMaxSize = 1 << 30;
  return Moved(
      Field{"model_type", &model_type,
            "model type (as in Hugging Face's config.json) to write; default: the first that can "
            "represent the model"},
      Field{"vocab_size", &vocab_size, "tokens in the vocabulary; set from the data when training",
            1, kMaxSize},
      Field{"n_positions", &n_positions, "maximum context in tokens", 1, kMaxSize},
      Field{"n_embd", &n_embd, "channels of the residual stream", 1, kMaxSize},
      Field{"n_layer", &n_layer, "transformer blocks", 1, 65535},
      Field{"n_head", &n_head, "attention heads; must divide n_embd where head_dim is null", 1,
            kMaxSize},
      Field{"n_kv_head", &n_kv_head,
            "key and value heads, each shared by n_head / n_kv_head query heads; null means n_head",
            1, kMaxSize},
      Field{"head_dim", &head_dim, "size of a head; null means n_embd / n_head", 1, kMaxSize},
      Field{"n_inner", &n_inner, "width of the feed-forward layer; null means 4 n_embd", 1,
            kMaxSize},
      GptRow(ChoiceField("activation_function", &activation_function,
                         "activation of the feed-forward layer"),
             kDetail)
          .OnPage("activation"),
      GptRow(ChoiceField("mlp", &mlp, "feed-forward layer: plain, or gated by the activation"),
             kSwitch),
      GptRow(
          ChoiceField("norm", &norm,
                      "LayerNorm, or RMSNorm: with weights, with 1 + weights, or without weights"),
          kSwitch)
          .OnPage("norm")
          .Says("norm", NormText),
      Field{"layer_norm_epsilon", &layer_norm_epsilon, "added to the variance", 0, 1},
      GptRow(Field{"scale_attn_weights", &scale_attn_weights,
                   "divide attention scores by the square root of the size of a head"},
             kSwitch),
      GptRow(Field{"scale_attn_by_inverse_layer_idx", &scale_attn_by_inverse_layer_idx,
                   "divide attention scores of block i also by i, counted from 1"},
             kSwitch),
      Field{"reorder_and_upcast_attn", &reorder_and_upcast_attn,
            "for other programs: compute attention in float32, which folio always does"},
      GptRow(Field{"attention_scale", &attention_scale,
                   "factor of attention scores; 0 means 1 / sqrt(D)", 0, 1e6},
             kSwitch)
          .Says("scores", NumberOf(&C::attention_scale, "times {:.6g}", 0)),
      GptRow(Field{"attention_cap", &attention_cap,
                   "c: attention scores become c tanh(score / c); 0: no cap", 0, 1e6},
             kSwitch)
          .Says("score cap", NumberOf(&C::attention_cap, "{}", 0)),
      GptRow(
          ChoiceField(
              "qk_norm", &qk_norm,
              "RMSNorm of queries and keys: of each head, of all heads together (full), or of each "
              "head after rotary positions"),
          kSwitch)
          .Says("qk norm",
                [](const C& c) { return std::string(c.has_qk_norm() ? NameOf(c.qk_norm) : ""); }),
      GptRow(Field{"qk_scale", &qk_scale, "factor of the result of qk_norm", 0, 1e6}, kSwitch),
      GptRow(
          ChoiceField("position_embedding", &position_embedding,
                      "positions are added to the embeddings, or rotate queries and keys (rotary)"),
          kSwitch)
          .OnPage("positions"),
      GptRow(
          Field{"rope_theta", &rope_theta, "base of the frequencies of rotary positions", 1, 1e12},
          kSwitch),
      GptRow(
          Field{"rotary_dim", &rotary_dim,
                "dimensions of a head that rotary positions rotate; null means all", 2, kMaxSize},
          kSwitch),
      GptRow(ChoiceField("rope_scaling", &rope_scaling,
                         "method that extends rotary positions beyond the original context"),
             kSwitch),
      Field{"rope_factor", &rope_factor, "factor of rope_scaling", 1, 1e6},
      GptRow(Field{"rope_low_freq_factor", &rope_low_freq_factor,
                   "llama3: wavelengths above the original context divided by this are scaled", 0,
                   1e6},
             kDetail),
      GptRow(Field{"rope_high_freq_factor", &rope_high_freq_factor,
                   "llama3: wavelengths below the original context divided by this are not scaled",
                   0, 1e6},
             kDetail),
      GptRow(
          Field{"rope_beta_fast", &rope_beta_fast,
                "yarn: pairs with more rotations in the original context are not scaled", 0, 1e6},
          kDetail),
      GptRow(Field{"rope_beta_slow", &rope_beta_slow,
                   "yarn: pairs with fewer rotations in the original context are scaled", 0, 1e6},
             kDetail),
      GptRow(Field{"rope_attention_factor", &rope_attention_factor,
                   "factor of rotated queries and keys; 0 means 0.1 ln(rope_factor) + 1 for yarn, "
                   "sqrt(1 + ln(rope_factor) / ln(rope_original_positions)) for longrope",
                   0, 1e6},
             kDetail),
      Field{"rope_original_positions", &rope_original_positions,
            "context before rope_scaling; null means n_positions", 1, kMaxSize},
      GptRow(NumbersField("rope_short_factors", &rope_short_factors,
                          "longrope: divisor of each pair's frequency if n_positions is at most "
                          "rope_original_positions: 1,1.5"),
             kSwitch),
      GptRow(NumbersField("rope_long_factors", &rope_long_factors,
                          "longrope: the same if n_positions is larger"),
             kDetail),
      GptRow(Field{"no_rope_every", &no_rope_every,
                   "n: layers n, 2n, 3n ... have no rotary positions; 0: all have", 0, 65535},
             kSwitch),
      GptRow(Field{"sliding_window", &sliding_window,
                   "number of positions that layers of kind w attend to, including the token's own",
                   1, kMaxSize},
             kSwitch)
          .Says("windows",
                [](const C& c) {
                  return c.has_window() ? fmt::format("{} tokens in layers w of {}",
                                                      WithCommas(*c.sliding_window),
                                                      LayerKindsText(c.layer_kinds))
                                        : "";
                }),
      GptRow(LayerKindsField(
                 "layer_kinds", &layer_kinds,
                 "kinds of the layers, repeated: f for full attention, w for a sliding window"),
             kSwitch),
      GptRow(
          Field{"rope_window_theta", &rope_window_theta,
                "rope_theta of layers of kind w, without rope_scaling; 0: the same as other layers",
                0, 1e12},
          kSwitch),
      GptRow(ChoiceField(
                 "norm_position", &norm_position,
                 "norms before each sublayer (pre, GPT-2), after each residual sum (post), on the "
                 "output of each sublayer (branch), or before and on the output (both)"),
             kSwitch)
          .OnPage("norm_position"),
      GptRow(ChoiceField(
                 "block", &block,
                 "attention before the feed-forward layer (serial), or both in parallel with two "
                 "norms or one"),
             kSwitch)
          .OnPage("block")
          .Says("block",
                [](const C& c) {
                  return std::string(
                      c.sublayer_layout().parallel
                          ? "parallel: attention and feed-forward read the same input"
                          : "");
                }),
      GptRow(Field{"embedding_scale", &embedding_scale, "factor of the embeddings", -1e6, 1e6},
             kSwitch)
          .OnPage("embedding_scale")
          .Says("embeddings", NumberOf(&C::embedding_scale, "times {:.6g}", 1)),
      GptRow(Field{"embedding_norm", &embedding_norm,
                   "apply RMSNorm without weights to the embeddings"},
             kSwitch | kNotSharded)
          .OnPage("embedding_norm")
          .Says("embedding norm", Where(&C::embedding_norm, "RMSNorm without weights")),
      GptRow(Field{"smear", &smear,
                   "add the embedding of the previous token to each, through a learned gate"},
             kSwitch | kNotSharded)
          .OnPage("smear")
          .Says("smear", Where(&C::smear, "the embedding of the previous token, through a gate")),
      GptRow(Field{"residual_lambdas", &residual_lambdas,
                   "each block reads the residual stream and the embeddings, each with a learned "
                   "factor"},
             kSwitch | kNotSharded)
          .OnPage("residual_lambdas")
          .Says("lambdas",
                Where(&C::residual_lambdas,
                      "factors of the residual stream and of the embeddings, before each block")),
      GptRow(Field{"value_embeddings", &value_embeddings,
                   "every second layer up to the last has an embedding table that is added to the "
                   "values of attention through learned gates"},
             kSwitch | kNotSharded)
          .OnPage("value_embeddings")
          .Says("value embeddings",
                Where(&C::value_embeddings, "in every second layer, through gates")),
      GptRow(
          Field{
              "backout", &backout,
              "subtract the residual stream after the middle block, with a learned factor, before "
              "ln_f"},
          kSwitch | kNotSharded)
          .OnPage("backout")
          .Says("backout",
                [](const C& c) {
                  return c.backout ? fmt::format("of the residual stream after block {}",
                                                 c.middle_layer())
                                   : "";
                }),
      GptRow(Field{"residual_scale", &residual_scale, "factor of the output of each sublayer", -1e6,
                   1e6},
             kSwitch)
          .OnPage("residual_scale")
          .Says("residuals", NumberOf(&C::residual_scale, "times {:.6g}", 1)),
      GptRow(Field{"logit_scale", &logit_scale, "factor of the logits", -1e6, 1e6}, kSwitch)
          .Says("logits", NumberOf(&C::logit_scale, "times {:.6g}", 1)),
      GptRow(
          Field{"logit_cap", &logit_cap, "c: logits become c tanh(logit / c); 0: no cap", 0, 1e6},
          kSwitch)
          .Says("logit cap", NumberOf(&C::logit_cap, "{}", 0)),
      GptRow(
          Field{
              "causal", &causal,
              "tokens attend only to earlier tokens; false: to all (bidirectional), and the model "
              "cannot generate text"},
          kSwitch),
      GptRow(Field{"bias", &bias, "biases in Linear and LayerNorm layers"}, kSwitch),
      GptRow(Field{"attention_bias", &attention_bias,
                   "biases of c_attn and its c_proj; null follows bias"},
             kSwitch),
      GptRow(Field{"qkv_bias", &qkv_bias, "biases of c_attn; null follows attention_bias"},
             kSwitch),
      GptRow(Field{"mlp_bias", &mlp_bias, "biases of c_fc and its c_proj; null follows bias"},
             kSwitch),
      GptRow(
          Field{"layer_norm_bias", &layer_norm_bias, "biases of the LayerNorms; null follows bias"},
          kSwitch),
      GptRow(Field{"lm_head_bias", &lm_head_bias, "a bias for each logit"}, kSwitch),
      GptRow(Field{"tie_word_embeddings", &tie_word_embeddings,
                   "use wte as the matrix of the head, too"})
          .OnPage("tied"),
      GptRow(Field{"embd_pdrop", &embd_pdrop, "dropout after the embeddings", 0, 1}.MaxExcluded(),
             kOfTraining),
      GptRow(Field{"attn_pdrop", &attn_pdrop, "dropout of attention weights", 0, 1}.MaxExcluded(),
             kOfTraining),
      GptRow(Field{"resid_pdrop", &resid_pdrop,
                   "dropout of the output of each sublayer, before the residual sum", 0, 1}
                 .MaxExcluded(),
             kOfTraining),
      GptRow(Field{"mlp_pdrop", &mlp_pdrop,
                   "dropout inside the feed-forward layer, after the activation", 0, 1}
                 .MaxExcluded(),
             kOfTraining),
      GptRow(Field{"sublayer_pdrop", &sublayer_pdrop,
                   "dropout of the input of each sublayer, after the LayerNorm of a pre-norm block",
                   0, 1}
                 .MaxExcluded(),
             kOfTraining),
      GptRow(
          ChoiceField(
              "init", &init,
              "initialisation of matrices; Xavier treats c_attn as one matrix, or split into q, k "
              "and v; nanochat's uses one rule for each kind of matrix"),
          kOfTraining),
      GptRow(Field{"initializer_range", &initializer_range, "standard deviation for init = normal",
                   0, 100},
             kOfTraining),
      GptRow(Field{"init_zero_positions", &init_zero_positions,
                   "initialise learned positions with zeros"},
             kOfTraining),
      GptRow(
          ChoiceField(
              "init_scaled_residuals", &init_scaled_residuals,
              "for init = normal: divide the deviation of residual projections by sqrt(2 n_layer): "
              "of both, of neither, or only of mlp.c_proj"),
          kOfTraining),
      Field{"bos_token_id", &bos_token_id, "token that begins a text, if any", 0, kMaxSize},
      Field{"eos_token_id", &eos_token_id, "token that ends a text, if any", 0, kMaxSize});
}

std::vector<Field> GptConfig::Fields() {
  std::vector<GptRow> rows = Rows();
  return {std::move_iterator(rows.begin()), std::move_iterator(rows.end())};
}

std::string LayerKindsText(const LayerKinds& kinds) {
  std::string text;
  for (const AttentionKind kind : kinds) text += static_cast<char>(kind);
  return text;
}

LayerKinds LayerKindsOf(std::string_view letters) {
  LayerKinds kinds;
  for (const char letter : letters) kinds.push_back(AttentionKind{letter});
  return kinds;
}

bool GptConfig::has_window() const {
  return sliding_window && std::ranges::count(layer_kinds, AttentionKind::kWindow) > 0;
}

double GptConfig::score_scale(int64_t layer) const {
  const double plain = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_size())) : 1;
  const double scale = attention_scale > 0 ? attention_scale : plain;
  return scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

std::vector<float> GptConfig::rope_divisors(bool beyond) const {
  const std::vector<double>& factors = beyond ? rope_long_factors : rope_short_factors;
  return {factors.begin(), factors.end()};
}

LayerLayout GptConfig::layer(int64_t layer) const {
  const auto l = static_cast<size_t>(layer);
  const bool window =
      sliding_window && layer_kinds[l % layer_kinds.size()] == AttentionKind::kWindow;
  const bool turns = rotary() && (no_rope_every == 0 || (layer + 1) % no_rope_every != 0);
  LayerLayout layout{.sublayers = sublayer_layout(),
                     .mlp = mlp,
                     .window = window ? *sliding_window : 0,
                     .score_scale = score_scale(layer),
                     .value_embedding = value_embeddings && (n_layer - 1 - layer) % 2 == 0};
  if (turns) layout.rotary = window && rope_window_theta > 0 ? 1 : 0;
  return layout;
}

namespace {

// Throws where smear or value_embeddings contradict the other fields.
void ValidateExtras(const GptConfig& config, const std::string& where) {
  const bool added =
      config.learned_positions() || config.position_embedding == PositionKind::kSinusoidal;
  if (config.smear && added) {
    throw UsageError(fmt::format("{}: smear needs embeddings without positions", where),
                     fmt::format("position_embedding is {}", NameOf(config.position_embedding)),
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
  if (block != BlockKind::kSerial && norm_position != NormPosition::kPre) {
    throw UsageError(
        fmt::format("{}: parallel sublayers need a norm before them", where),
        fmt::format("block is {}, norm_position is {}", NameOf(block), NameOf(norm_position)),
        "set norm_position to pre, or block to serial");
  }
  if (block == BlockKind::kParallelOneNorm && sublayer_pdrop > 0) {
    throw UsageError(
        fmt::format("{}: sublayers that share a norm cannot have dropout", where),
        fmt::format("block is {}, sublayer_pdrop is {}", NameOf(block), sublayer_pdrop),
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
  if (position_embedding == PositionKind::kSinusoidal && n_embd % 2 != 0) {
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
  const bool windows = std::ranges::count(layer_kinds, AttentionKind::kWindow) > 0;
  if (windows && !sliding_window) {
    throw UsageError(
        fmt::format("{}: layers with a sliding window need its size", where),
        fmt::format("layer_kinds is \"{}\", sliding_window is null", LayerKindsText(layer_kinds)),
        "set sliding_window");
  }
  if (windows && !causal) {
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
