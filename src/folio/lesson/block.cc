#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/infer/token_probabilities.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

// Predicted tokens whose probability is followed through the layers.
constexpr int64_t kForetold = 6;
constexpr size_t kUnitsShown = 12;
constexpr size_t kHeadsNamed = 6;

// Columns as rows.
std::vector<std::vector<double>> Across(const std::vector<std::vector<double>>& columns) {
  std::vector<std::vector<double>> rows(columns.front().size());
  for (const std::vector<double>& column : columns) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(column[i]);
  }
  return rows;
}

// Rows of channels, one below the other.
Matrix ChannelRows(std::initializer_list<Tensor> rows, std::vector<std::string> labels) {
  std::vector<std::vector<double>> numbers;
  for (const Tensor& row : rows) numbers.push_back(Doubles(row));
  return StackedValues(numbers, {.rows = std::move(labels), .column_axis = "channel"});
}

class BlockWalk {
 public:
  BlockWalk(const Trace& trace, const ModelTokens& tokens, const Tokenizer& tokenizer)
      : trace_(trace),
        tokens_(tokens),
        tokenizer_(tokenizer),
        backend_(trace.backend()),
        params_(trace.weights().params()),
        config_(trace.config()),
        t_(tokens.last()) {}

  Report Make(const SamplingOptions& sampling) {
    const std::string& token = tokens_.labels.back();
    walk_.topic = "block";
    const ModelSummary summary(trace_.weights().table());
    walk_.title = fmt::format("One token’s way: from “{}” to what comes next", token);
    walk_.intro = fmt::format(
        "This follows “{}”, the last of {} tokens, through a model of {} layers with {} heads "
        "each. Its vector of {} numbers, the stream, is read by every layer, and every layer adds "
        "to it; at the end it says what comes next.",
        token, trace_.T(), summary.layers, summary.heads, summary.channels);
    Ids();
    LookUp();
    Position();
    for (int64_t layer = 0; layer < config_.n_layer; ++layer) Layer(layer);
    Stream();
    Lengths();
    const std::vector<float> logits = LogitsAfter(config_.n_layer);
    Foretold(logits);
    FinalNorm();
    AddSamplingSteps(backend_, {logits, [this](int32_t id) { return IdLabel(tokenizer_, id); }},
                     sampling, walk_);
    return std::move(walk_);
  }

 private:
  // The token's row at a point: (1,C) or as wide as the point.
  Tensor Row(TracePoint point, int64_t layer = 0) const {
    return RowAt(trace_.At(point, layer), t_);
  }
  // Returns the row to which a layer's feed-forward output is added.
  Tensor BeforeMlp(int64_t layer) const {
    return Row(layout_.post_norm ? TracePoint::kNorm1 : TracePoint::kMiddle, layer);
  }
  // The row of the stream that is a layer's input.
  StepTensor Into(int64_t layer) const { return StreamInto(trace_, layer, t_); }
  // A sublayer's result as it is added to the stream: (1,C).
  StepTensor Joining(TracePoint point, int64_t layer) const {
    return Scaled(Row(point, layer), config_.residual_scale);
  }
  // "stream + ln_mlp(c_proj(units))"
  std::string JoiningFormula(std::string_view what, std::string_view norm) const {
    const std::string normed =
        layout_.branch_norm ? fmt::format("{}({})", norm, what) : std::string(what);
    return config_.residual_scale == 1
               ? fmt::format("stream + {}", normed)
               : fmt::format("stream + {} · {}", config_.residual_scale, normed);
  }

  void Ids() {
    walk_.Section("From id to vector");
    walk_.AddNumbers("ids", "text → ids", IdValues(tokens_),
                     fmt::format("The model is given numbers of a vocabulary of {}; “{}” is {}.",
                                 config_.vocab_size, tokens_.labels.back(), trace_.ids().back()));
  }

  void LookUp() {
    const int32_t id = trace_.ids().back();
    StepTensor one_hot({1, config_.vocab_size}), product({1, config_.n_embd});
    one_hot.data()[id] = 1;
    backend_.Run(LinearForward{.x = one_hot, .weight = params_.wte, .out = product});
    const Tensor row = RowAt(params_.wte, id);
    StepTensor difference({1, config_.n_embd});
    for (int64_t c = 0; c < config_.n_embd; ++c) {
      difference.data()[c] = product.data()[c] - row.host<float>()[c];
    }
    walk_.AddNumbers(
        "look-up", fmt::format("onehot({}) wte = wte[{}]", id, id),
        ChannelRows({product, row, difference}, {"one-hot times wte", "row of wte", "difference"}),
        fmt::format("A row of {} zeros with a single 1 at place {}, times the "
                    "embedding matrix, is row {} of that matrix: the embedding is a "
                    "linear layer, and a look-up is the cheap way to compute it.",
                    config_.vocab_size, id, id));
  }

  void Position() {
    const int32_t id = trace_.ids().back();
    const StepTensor token = Scaled(RowAt(params_.wte, id), config_.embedding_scale);
    std::string scaled = config_.embedding_scale == 1
                             ? fmt::format("wte[{}]", id)
                             : fmt::format("{} · wte[{}]", config_.embedding_scale, id);
    if (config_.embedding_norm) scaled = fmt::format("RMSNorm({})", scaled);
    if (config_.smear) scaled += " + λ · gate · the same of the token before";
    if (!AddsPositions(config_)) {
      walk_.AddNumbers(
          "position", scaled, ChannelRows({Row(TracePoint::kEmbedded)}, {"stream"}),
          config_.rotary()
              ? fmt::format("This is the beginning of the stream. Nothing is added for place {}: "
                            "every layer turns its queries and keys instead (folio explain "
                            "rotary).",
                            t_)
              : "This is the beginning of the stream. Nothing is added for the place: the model "
                "knows the order of its tokens by what each may look at alone.");
      return;
    }
    std::vector<float> table = PositionTable(trace_.weights());
    const Tensor positions(table.data(), {config_.n_positions, config_.n_embd});
    walk_.AddNumbers(
        "position",
        fmt::format("{} + {}[{}]", scaled, config_.learned_positions() ? "wpe" : "sinusoids", t_),
        ChannelRows({token, RowAt(positions, t_), Row(TracePoint::kEmbedded)},
                    {"token", "position", "sum"}),
        fmt::format("The vector of place {} is added, for attention by itself does not know the "
                    "order of the tokens; the sum is the beginning of the stream.",
                    t_));
  }

  // If norms come before the sublayers, those of one layer show it.
  void Layer(int64_t layer) {
    walk_.Section(fmt::format("Layer {}", layer));
    const bool post = layout_.post_norm, shown = layout_.pre_norm && layer == 0;
    const Tensor middle = Row(TracePoint::kMiddle, layer), norm_1 = Row(TracePoint::kNorm1, layer);
    Mix(layer);
    if (shown) Norm(layer, "ln_1", Into(layer), norm_1);
    Values(layer);
    Heads(layer);
    Attention(layer);
    if (post) Norm(layer, "ln_1", middle, norm_1);
    if (shown && !layout_.one_norm) {
      Norm(layer, "ln_2", layout_.parallel ? Into(layer) : middle, Row(TracePoint::kNorm2, layer));
    }
    Units(layer);
    const StepTensor sum = FeedForward(layer);
    if (post) Norm(layer, "ln_2", sum, Row(TracePoint::kOutput, layer));
  }

  void Mix(int64_t layer) {
    if (!config_.residual_lambdas) return;
    const auto factor = [&](const Tensor& factors) { return factors.host<float>()[layer]; };
    AddStep(layer, "mix",
            fmt::format("{:.3g} · stream + {:.3g} · embedding", factor(params_.resid_lambdas),
                        factor(params_.x0_lambdas)),
            ChannelRows({RowAt(trace_.Stream(layer), t_), Row(TracePoint::kEmbedded), Into(layer)},
                        {"stream", "embedding", "mix"}),
            "Two numbers that the layer has learnt say how much it takes of the stream, and how "
            "much of what the token was at the beginning: that stays at hand in every layer.");
  }

  void AddStep(int64_t layer, const std::string& name, std::string formula, Matrix values,
               std::string why, FigureKind figure = FigureKind::kNone) {
    walk_.Add(fmt::format("layer {}: {}", layer, name), std::move(formula), std::move(values),
              std::move(why), figure);
  }

  std::string_view NormName() const { return config_.layer_norm() ? "LayerNorm" : "RMSNorm"; }

  void Norm(int64_t layer, const std::string& name, const Tensor& before, const Tensor& after) {
    AddStep(layer, name, fmt::format("{} = {}(stream)", name, NormName()),
            ChannelRows({before, after}, {"stream", name}),
            fmt::format("{}, times learnt weights: so every sublayer finds numbers of the same "
                        "size, however large the stream has grown.",
                        config_.layer_norm() ? "Mean 0, variance 1" : "Mean square 1"));
  }

  // The gates of the value embeddings for this token.
  void Values(int64_t layer) {
    if (!config_.layer(layer).value_embedding) return;
    const SelfAttentionParams& params = params_.h[static_cast<size_t>(layer)].attn;
    const int64_t K = params.value_gate.dim(0);
    const StepTensor into = Into(layer);
    const Tensor read = layout_.post_norm ? into : Row(TracePoint::kNorm1, layer);
    StepTensor first({1, kValueChannels}), gates({1, K});
    std::copy_n(read.host<float>(), kValueChannels, first.data());
    backend_.Run(
        LinearForward{.x = first, .weight = params.value_gate, .out = gates, .transposed = true});
    for (float& gate : std::span(gates.data(), static_cast<size_t>(K))) {
      gate = 3 / (1 + std::exp(-gate));
    }
    Matrix values =
        StackedValues({Doubles(gates)}, {.rows = {"gate"}, .columns = Numbered(K, "head ")});
    values.digits = 3;
    AddStep(layer, "its own values",
            fmt::format("v + gate · value_embeds[{}], gate = 3 σ(g · the first {} channels)",
                        trace_.ids().back(), kValueChannels),
            std::move(values),
            "This layer knows something of each token by heart, a row of a table of its own, and "
            "adds it to what attention passes on: so much of it in each head of values.");
  }

  void Heads(int64_t layer) {
    const int64_t H = config_.n_head, T = trace_.T();
    std::vector<std::vector<double>> heads;
    std::vector<float> weights(static_cast<size_t>(T * T));
    std::vector<std::string> looks;
    for (int64_t head = 0; head < H; ++head) {
      trace_.HeadWeights(layer, head, weights);
      heads.emplace_back(weights.end() - T, weights.end());
      const auto strongest = std::ranges::max_element(heads.back());
      if (looks.size() == kHeadsNamed) continue;
      looks.push_back(fmt::format(
          "head {} at “{}” ({:.2f})", head,
          tokens_.labels[static_cast<size_t>(strongest - heads.back().begin())], *strongest));
    }
    Matrix values =
        StackedValues(Across(heads),
                      {.rows = tokens_.labels, .columns = Numbered(H, "head "), .row_axis = "key"});
    values.digits = 3;
    AddStep(layer, "heads",
            fmt::format("weights = softmax({}), the row of this token in each head",
                        ScoreFormula(config_, layer)),
            std::move(values),
            fmt::format("Where this token looks for what it needs: {}{}.", fmt::join(looks, ", "),
                        looks.size() < heads.size() ? ", …" : ""),
            FigureKind::kHeatmap);
  }

  void Attention(int64_t layer) {
    const StepTensor joining = Joining(TracePoint::kAttention, layer);
    AddStep(layer, "attention joins the stream",
            JoiningFormula("c_proj(contexts of all heads)", "ln_attn"),
            ChannelRows({Into(layer), joining, Row(TracePoint::kMiddle, layer)},
                        {"stream", "attention", "sum"}),
            "What the heads brought is added: nothing is overwritten, and later layers still find "
            "what was there before.");
  }

  void Units(int64_t layer) {
    const bool gated = config_.layer(layer).mlp == MlpKind::kGated;
    const std::vector<double> fc = Doubles(Row(TracePoint::kUp, layer));
    const std::vector<double> active = Doubles(Row(TracePoint::kActivated, layer));
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    std::vector<std::string> columns = {"c_fc", std::string(NameOf(config_.activation_function))};
    if (gated) columns = {"gate", "up", "product"};
    for (const size_t unit : Strongest(active, kUnitsShown)) {
      rows.push_back({fc[unit]});
      if (gated) rows.back().push_back(fc[active.size() + unit]);
      rows.back().push_back(active[unit]);
      labels.push_back(fmt::format("unit {}", unit));
    }
    const auto on =
        std::ranges::count_if(std::span(fc).first(active.size()), [](double x) { return x > 0; });
    const std::string read = layout_.post_norm   ? "ln_1"
                             : !layout_.pre_norm ? "stream"
                             : layout_.one_norm  ? "ln_1"
                                                 : "ln_2";
    const std::string_view bend = NameOf(config_.activation_function);
    AddStep(layer, "units",
            gated ? fmt::format("gate | up = c_fc({}),  {}(gate) · up, the strongest", read, bend)
                  : fmt::format("{}(c_fc({})), the strongest", bend, read),
            StackedValues(rows, {.rows = std::move(labels), .columns = std::move(columns)}),
            fmt::format("Each unit of the feed-forward part looks for one pattern in the stream: "
                        "{} of {} are {} for this token ({} above 0).",
                        on, active.size(), gated ? "open" : "on",
                        gated ? "their gate is" : "their input is"));
  }

  StepTensor FeedForward(int64_t layer) {
    const Tensor before = BeforeMlp(layer);
    const StepTensor added = Joining(TracePoint::kMlp, layer);
    StepTensor sum = Sum(backend_, before, added);
    AddStep(layer, "feed-forward joins the stream", JoiningFormula("c_proj(units)", "ln_mlp"),
            ChannelRows({before, added, sum}, {"stream", "feed-forward", "sum"}),
            "What the units know about such a token is added: this part looks at no other token.");
    return sum;
  }

  // The token's stream at the beginning and after each sublayer.
  void Stream() {
    std::vector<std::vector<double>> rows = {Doubles(Row(TracePoint::kEmbedded))};
    std::vector<std::string> labels = {"embedding"};
    for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
      rows.push_back(Doubles(Row(TracePoint::kMiddle, layer)));
      labels.push_back(fmt::format("{} attention", layer));
      rows.push_back(Doubles(Row(TracePoint::kOutput, layer)));
      labels.push_back(fmt::format("{} feed-forward", layer));
    }
    walk_.Section("The residual stream");
    walk_.Add("stream", "the stream after each sublayer",
              StackedValues(rows, {.rows = std::move(labels), .column_axis = "channel"}),
              layout_.post_norm
                  ? "In this model the sum itself is normalised after each sublayer, so that the "
                    "stream keeps its size."
                  : "The same row of numbers from top to bottom, written on by every layer: "
                    "columns that keep their colour carry something through the whole model.",
              FigureKind::kHeatmap);
  }

  void Lengths() {
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    const auto add = [&](std::string label, const Tensor& before, const StepTensor& added) {
      const StepTensor sum = Sum(backend_, before, added);
      rows.push_back({Length(backend_, before), Length(backend_, added), Length(backend_, sum)});
      labels.push_back(std::move(label));
    };
    for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
      add(fmt::format("{} attention", layer), Into(layer), Joining(TracePoint::kAttention, layer));
      add(fmt::format("{} feed-forward", layer), BeforeMlp(layer),
          Joining(TracePoint::kMlp, layer));
    }
    Matrix values =
        StackedValues(rows, {.rows = std::move(labels), .columns = {"stream", "added", "sum"}});
    values.digits = 3;
    walk_.AddNumbers(
        "lengths", "√Σ x² of the stream, of what is added, and of their sum", std::move(values),
        "How loud each sublayer is for this token: one that adds a vector as long as the stream "
        "changes its direction, one that adds a short vector only corrects it.");
  }

  // Returns the logits of the model if it ended after `layers` blocks.
  std::vector<float> LogitsAfter(int64_t layers) const {
    std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
    trace_.Logits(trace_.Stream(layers), t_, t_ + 1,
                  Tensor(logits.data(), {1, config_.vocab_size}));
    return logits;
  }

  void Foretold(const std::vector<float>& final_logits) {
    const auto top = TopTokens(final_logits, std::min(kForetold, config_.vocab_size));
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels, columns;
    for (const TokenProbability& token : top) columns.push_back(IdLabel(tokenizer_, token.id));
    for (int64_t layers = 0; layers <= config_.n_layer; ++layers) {
      std::vector<float> logits = LogitsAfter(layers);
      const Tensor row(logits.data(), {1, config_.vocab_size});
      const std::vector<double> shares = Doubles(Softmax(row));
      rows.emplace_back();
      for (const TokenProbability& token : top) {
        rows.back().push_back(shares[static_cast<size_t>(token.id)]);
      }
      const auto first = std::ranges::max_element(shares) - shares.begin();
      labels.push_back(fmt::format("{}: “{}”",
                                   layers == 0 ? "embedding" : fmt::format("layer {}", layers - 1),
                                   IdLabel(tokenizer_, static_cast<int32_t>(first))));
    }
    walk_.Add("what it would say", "softmax(head(ln_f(stream))) after each layer",
              StackedValues(rows, {.rows = std::move(labels), .columns = std::move(columns)}),
              "The stream can be read at any height as if the model ended there: this is how the "
              "final prediction comes about; beside each layer stands what would be likeliest.",
              FigureKind::kHeatmap);
  }

  void FinalNorm() {
    walk_.Section("The prediction");
    if (config_.backout && config_.n_layer > 1) {
      const int64_t middle = config_.middle_layer();
      walk_.AddNumbers(
          "backout",
          fmt::format("stream − {:.3g} · stream after layer {}",
                      params_.backout_lambda.host<float>()[0], middle),
          ChannelRows({Row(TracePoint::kOutput, middle), RowAt(trace_.Stream(config_.n_layer), t_)},
                      {fmt::format("layer {}", middle), "what is left"}),
          "A part of what the stream held in the middle of the model has served its purpose, and "
          "is taken away before the prediction.");
    }
    walk_.AddNumbers(
        "ln_f", fmt::format("ln_f = {}(stream)", NormName()),
        ChannelRows({RowAt(trace_.Stream(config_.n_layer), t_), Row(TracePoint::kFinal)},
                    {"stream", "ln_f"}),
        fmt::format(
            "For the last time at a common size; then its products with the vectors of all {} "
            "tokens ({}) are the logits{}{}.",
            config_.vocab_size,
            config_.tie_word_embeddings ? "the rows of wte once more" : "the rows of lm_head",
            config_.logit_scale == 1 ? "" : fmt::format(", times {}", config_.logit_scale),
            config_.logit_cap == 0 ? ""
                                   : fmt::format(", which a tanh keeps between −{} and {}",
                                                 config_.logit_cap, config_.logit_cap)));
  }

  const Trace& trace_;
  const ModelTokens& tokens_;
  const Tokenizer& tokenizer_;
  Backend& backend_;
  const GptParams& params_;
  const GptConfig& config_;
  const SublayerLayout layout_ = config_.sublayer_layout();
  const int64_t t_;  // the last token
  Report walk_ = {};
};

}  // namespace

Report ExplainBlock(Backend& backend, const LessonModel& model, std::string_view text,
                    const SamplingOptions& sampling) {
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(backend, *model.weights, tokens.ids, Trace::AllPoints());
  return BlockWalk(trace, tokens, *model.tokenizer).Make(sampling);
}

}  // namespace folio
