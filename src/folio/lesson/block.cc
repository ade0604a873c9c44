#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "folio/inspect/token_scores.h"
#include "folio/lesson/block_layer.h"
#include "folio/lesson/sampling_steps.h"
#include "folio/lesson/step_ops.h"
#include "folio/model/positions.h"

namespace folio {
namespace {

constexpr int64_t kForetold = 6;  // tokens whose probability is followed through the layers

class BlockWalk {
 public:
  BlockWalk(const TokenPath& path, const ExplainModel& model)
      : path_(path),
        trace_(path.trace),
        backend_(path.trace.backend()),
        params_(path.trace.weights().params()),
        config_(path.trace.config()),
        tokenizer_(*model.tokenizer) {}

  void Make(const SamplingOptions& sampling) {
    const std::string& token = path_.tokens.labels.back();
    path_.walk.topic = "block";
    path_.walk.title = fmt::format("One token’s way: from “{}” to what comes next", token);
    path_.walk.intro = fmt::format(
        "This follows “{}”, the last of {} tokens, through a model of {} layers with {} heads "
        "each. "
        "Its vector of {} numbers, the stream, is read by every layer, and every layer adds to it; "
        "at the end it says what comes next.",
        token, trace_.T(), config_.n_layer, config_.n_head, config_.n_embd);
    Ids();
    LookUp();
    Position();
    for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
      // Where the LayerNorms stand in front of the sublayers, those of one layer show it.
      AddLayerSteps(path_, layer, config_.pre_norm() && layer > 0);
    }
    Stream();
    Lengths();
    const std::vector<float> logits = LogitsAfter(config_.n_layer);
    Foretold(logits);
    FinalNorm();
    AddSamplingSteps(backend_, {logits, [this](int32_t id) { return IdLabel(tokenizer_, id); }},
                     sampling, path_.walk);
  }

 private:
  void Add(std::string name, std::string formula, StepValues values, std::string why,
           FigureKind figure, std::string section = {}) {
    path_.walk.steps.push_back({.name = std::move(name),
                                .formula = std::move(formula),
                                .values = std::move(values),
                                .why = std::move(why),
                                .figure = figure,
                                .section = std::move(section)});
  }

  void Ids() {
    StepValues ids = RowValues(std::vector<double>(trace_.ids().begin(), trace_.ids().end()),
                               {.columns = path_.tokens.labels});
    ids.heat = false;
    ids.digits = 0;
    Add("ids", "text → ids", std::move(ids),
        fmt::format("The model is given numbers of a vocabulary of {}; “{}” is {}.",
                    config_.vocab_size, path_.tokens.labels.back(), trace_.ids().back()),
        FigureKind::kNone, "From id to vector");
  }

  void LookUp() {
    const int32_t id = trace_.ids().back();
    StepTensor one_hot({1, config_.vocab_size}), product({1, config_.n_embd});
    one_hot.data()[id] = 1;
    backend_.Run(
        LinearForward{.x = one_hot.tensor(), .weight = params_.wte, .out = product.tensor()});
    const Tensor row = RowAt(params_.wte, id);
    StepTensor difference({1, config_.n_embd});
    for (int64_t c = 0; c < config_.n_embd; ++c) {
      difference.data()[c] = product.data()[c] - row.data<float>()[c];
    }
    Add("look-up", fmt::format("onehot({}) wte = wte[{}]", id, id),
        ChannelRows({product.tensor(), row, difference.tensor()},
                    {"one-hot times wte", "row of wte", "difference"}),
        fmt::format("A row of {} zeros with a single 1 at place {}, times the embedding matrix, is "
                    "row {} of that matrix: the embedding is a linear layer, and a look-up is the "
                    "cheap way to compute it.",
                    config_.vocab_size, id, id),
        FigureKind::kNone);
  }

  void Position() {
    const bool learned = config_.learned_positions();
    StepTensor sinusoids(learned ? Shape{1, 1} : Shape{trace_.T(), config_.n_embd});
    if (!learned) FillSinusoids(sinusoids.tensor());
    const Tensor position = RowAt(learned ? params_.wpe : sinusoids.tensor(), path_.t());
    const std::string name = learned ? "wpe" : "sinusoids";
    Add("position", fmt::format("wte[{}] + {}[{}]", trace_.ids().back(), name, path_.t()),
        ChannelRows(
            {RowAt(params_.wte, trace_.ids().back()), position, path_.Row(TracePoint::kEmbedded)},
            {"token", "position", "sum"}),
        fmt::format("The vector of place {} is added, for attention by itself does not know the "
                    "order of the tokens; the sum is the beginning of the stream.",
                    path_.t()),
        FigureKind::kNone);
  }

  // The token's stream at its beginning and behind each sublayer.
  void Stream() {
    std::vector<std::vector<double>> rows = {Doubles(path_.Row(TracePoint::kEmbedded))};
    std::vector<std::string> labels = {"embedding"};
    for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
      rows.push_back(Doubles(path_.Row(TracePoint::kMiddle, layer)));
      labels.push_back(fmt::format("{} attention", layer));
      rows.push_back(Doubles(path_.Row(TracePoint::kOutput, layer)));
      labels.push_back(fmt::format("{} feed-forward", layer));
    }
    Add("stream", "the stream after each sublayer",
        StackedValues(rows, {.rows = std::move(labels), .column_axis = "channel"}),
        config_.pre_norm()
            ? "The same row of numbers from top to bottom, written on by every layer: columns that "
              "keep their colour carry something through the whole model."
            : "In this model the sum itself is normalised after each sublayer, so that the stream "
              "keeps its size.",
        FigureKind::kHeatmap, "The residual stream");
  }

  void Lengths() {
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    const auto add = [&](std::string label, const Tensor& before, const Tensor& added) {
      const StepTensor sum = Sum(backend_, before, added);
      rows.push_back(
          {Length(backend_, before), Length(backend_, added), Length(backend_, sum.tensor())});
      labels.push_back(std::move(label));
    };
    for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
      add(fmt::format("{} attention", layer), RowAt(trace_.Stream(layer), path_.t()),
          path_.Row(TracePoint::kAttention, layer));
      add(fmt::format("{} feed-forward", layer), path_.BeforeMlp(layer),
          path_.Row(TracePoint::kMlp, layer));
    }
    StepValues values =
        StackedValues(rows, {.rows = std::move(labels), .columns = {"stream", "added", "sum"}});
    values.digits = 3;
    Add("lengths", "√Σ x² of the stream, of what is added, and of their sum", std::move(values),
        "How loud each sublayer is for this token: one that adds a vector as long as the stream "
        "changes its direction, one that adds a short vector only corrects it.",
        FigureKind::kNone);
  }

  // What the model would say if it ended after `layers` blocks.
  std::vector<float> LogitsAfter(int64_t layers) const {
    std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
    trace_.Logits(trace_.Stream(layers), path_.t(), path_.t() + 1,
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
      const std::vector<double> shares = Doubles(Softmax(row).tensor());
      rows.emplace_back();
      for (const TokenProbability& token : top) {
        rows.back().push_back(shares[static_cast<size_t>(token.id)]);
      }
      const auto first = std::ranges::max_element(shares) - shares.begin();
      labels.push_back(fmt::format("{}: “{}”",
                                   layers == 0 ? "embedding" : fmt::format("layer {}", layers - 1),
                                   IdLabel(tokenizer_, static_cast<int32_t>(first))));
    }
    Add("what it would say", "softmax(head(ln_f(stream))) after each layer",
        StackedValues(rows, {.rows = std::move(labels), .columns = std::move(columns)}),
        "The stream can be read at any height as if the model ended there: this is how the final "
        "prediction comes about; beside each layer stands what would be likeliest.",
        FigureKind::kHeatmap);
  }

  void FinalNorm() {
    Add("ln_f", "ln_f = LayerNorm(stream)",
        ChannelRows(
            {RowAt(trace_.Stream(config_.n_layer), path_.t()), path_.Row(TracePoint::kFinal)},
            {"stream", "ln_f"}),
        fmt::format(
            "For the last time at a common size; then its products with the vectors of all "
            "{} tokens ({}) are the logits.",
            config_.vocab_size,
            config_.tie_word_embeddings ? "the rows of wte once more" : "the rows of lm_head"),
        FigureKind::kNone, "The prediction");
  }

  const TokenPath& path_;
  const Trace& trace_;
  Backend& backend_;
  const GptParams& params_;
  const GptConfig& config_;
  const Tokenizer& tokenizer_;
};

}  // namespace

Walk ExplainBlock(Backend& backend, const ExplainModel& model, std::string_view text,
                  const SamplingOptions& sampling) {
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(backend, *model.weights, tokens.ids, Trace::AllPoints());
  Walk walk{.topic = {}, .title = {}, .intro = {}, .steps = {}};
  const TokenPath path{trace, tokens, walk};
  BlockWalk(path, model).Make(sampling);
  return walk;
}

}  // namespace folio
