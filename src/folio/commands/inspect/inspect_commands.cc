#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/commands/inspect/inspect_reports.h"
#include "folio/commands/model_flags.h"
#include "folio/inspect/activation_stats.h"
#include "folio/inspect/attention.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/lens.h"
#include "folio/inspect/probabilities.h"
#include "folio/model/config.h"
#include "folio/model/shard_weights.h"
#include "folio/run/preview.h"
#include "folio/term/console.h"
#include "folio/train/config.h"
#include "folio/train/ranks.h"

namespace folio {
namespace {

class InspectAttentionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect attention",
        .summary = "show what each head of a model attends to",
        .group = "inspect",
        .details =
            "Prints the scores of each head: the entropy of its weights in nats, the mean distance "
            "in tokens from query to key, and the mean weight on the first token, the token "
            "before, the query itself, earlier occurrences of its token (duplicate) and the tokens "
            "that followed those (induction). --layer looks at one layer; with --head too the map "
            "is printed, queries down, keys across. --json has the weights of the heads that "
            "--layer and --head choose, rows are queries.\n\n--svg draws: without --layer all "
            "heads, a row for each layer; with --layer its heads; with --head too one large map. "
            "Several texts (repeat --text or --file) with --layer are one figure, a row for each "
            "text; otherwise --svg is a directory that gets text-1.svg, text-2.svg and so "
            "on.\n\nAttention weights show where a head looks, not why the model gives its answer.",
        .examples = {
            "folio inspect attention --model runs/demo --text \"the cat and the dog\"",
            "folio inspect attention -m runs/demo --text \"Once upon\" --layer 1 --head 0",
            "folio inspect attention -m runs/demo --file a.txt --svg heads.svg --sort previous",
            "folio inspect attention -m runs/demo --text one --text two --layer 0 --svg both.svg",
            "folio inspect attention -m runs/demo --text abc --layer 0 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags_.Add(flags);
    flags.Value(Field{"layer", &view_.layer, "only this layer, from 0", 0, 1e6});
    flags.Value(Field{"head", &view_.head, "only this head of the layer, from 0", 0, 1e6});
    std::vector<std::string> orders = ScoreNames();
    orders.insert(orders.begin(), "layer");
    flags.Value(Field{"sort", &view_.sort, "order of the heads, largest first"}.Choices(orders),
                {.placeholder = "SCORE"});
    flags_.output.Add(flags, "draw a figure", "FILE|DIR");
    flags.Value(
        Field{"scale", &scale_, "colour scale of the weights"}.Choices({"linear", "sqrt", "log"}));
    flags.Switch("--per-row", &view_.per_row,
                 "scale the colours of each query to its largest weight");
    flags.Switch("--first-aside", &view_.first_aside,
                 "draw without the first token, and normalise the rest to sum to 1");
  }

  int Run(const Context& context) override {
    if (view_.head && !view_.layer) {
      throw UsageError("--head needs --layer", {}, "give its layer: --layer 0");
    }
    // One figure for each of several texts, unless they are rows of one figure for a layer.
    flags_.output.directory = flags_.text.count() > 1 && (!view_.layer || view_.head);
    view_.scale = scale_ == "linear" ? HeatScale::kLinear
                  : scale_ == "log"  ? HeatScale::kLog
                                     : HeatScale::kSqrt;
    const OpenedModel model = flags_.Open(context.console);
    const GptConfig& config = model.weights->config();
    CheckIndex("layer", view_.layer, config.n_layer);
    CheckIndex("head", view_.head, config.n_head);
    const std::vector<AttentionText> texts = Look(context, model);
    const TokenNames names(model.tokenizer.get());
    flags_.output.Show(context.console, AttentionReport(texts, view_, config, names));
    return 0;
  }

 private:
  std::vector<AttentionText> Look(const Context& context, const OpenedModel& model) {
    const GptConfig& config = model.weights->config();
    const std::vector<ModelText> inputs = ReadTexts(model, flags_.text);
    if (view_.first_aside) {
      for (const ModelText& text : inputs) RequireTwoTokens(text, "--first-aside leaves no tokens");
    }
    view_.maps = view_.head || flags_.output.draws();
    view_.weights = view_.layer && context.console.json();
    Progress progress(context.console, context.progress_mode);
    ProgressState state{
        .unit = "head", .total = config.n_layer * config.n_head * std::ssize(inputs), .fields = {}};
    std::vector<AttentionText> texts;
    for (const ModelText& input : inputs) {
      texts.push_back(InspectHeads(model, input, view_, [&] {
        ThrowIfStopRequested();
        ++state.done;
        progress.Show(state);
      }));
    }
    return texts;
  }

  ViewFlags flags_;
  AttentionView view_;
  std::string scale_ = "sqrt";
};

class InspectLensCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect lens",
            .summary = "show what a model would predict after each block (logit lens)",
            .group = "inspect",
            .details =
                "The logit lens applies the last norm and the head to the residual stream after "
                "the embedding and after each block, as if the model ended there. A cell shows the "
                "likeliest next token and its probability; the last row is the prediction of the "
                "model. For a single position it also shows the divergence of the final prediction "
                "from this one (KL, in nats), the rank here of the finally predicted token, the "
                "entropy in nats, and the --top likeliest tokens.\n\n--positions counts tokens "
                "from 0; negative numbers count from the end, -1 is the last token. By default all "
                "positions are shown, or the last 32 of a long text.",
            .examples = {"folio inspect lens --model runs/demo --text \"Once upon a\"",
                         "folio inspect lens -m runs/demo --text \"Once upon a\" --positions=-1",
                         "folio inspect lens -m runs/demo --file a.txt --positions 3,7 --json",
                         "folio inspect lens -m runs/demo --file a.txt --tail --svg lens.svg"}};
  }

  void AddFlags(Flags& flags) override {
    view_.Add(flags);
    flags.Value(Field{"positions", &positions_, "which positions to show"},
                {.placeholder = "LIST|all"});
    flags.Value(Field{"top", &top_, "number of likeliest tokens to list", 1, 1e6});
    view_.output.Add(flags, "draw the table", "FILE");
  }

  int Run(const Context& context) override {
    const OpenedModel model = view_.Open(context.console);
    LensView view{
        .text = ReadOneText(model, view_.text, "inspect lens"), .positions = {}, .cells = {}};
    view.positions = ParsePositions(positions_, static_cast<int64_t>(view.text.ids.size()));
    view.layers = model.weights->config().n_layer + 1;
    Look(context, model, view);
    view_.output.Show(context.console, LensReport(view, TokenNames(model.tokenizer.get())));
    return 0;
  }

 private:
  void Look(const Context& context, const OpenedModel& model, LensView& view) const {
    const Trace trace(*model.backend, *model.weights, view.text.ids,
                      {TracePoint::kEmbedded, TracePoint::kOutput}, view.text.mask);
    Progress progress(context.console, context.progress_mode);
    ProgressState state{.unit = "position", .total = std::ssize(view.positions), .fields = {}};
    view.cells = LogitLens(trace, view.positions, top_, [&](int64_t done) {
      ThrowIfStopRequested();
      state.done = done;
      progress.Show(state);
    });
  }

  ViewFlags view_;
  std::string positions_;
  int64_t top_ = 5;
};

class InspectEmbeddingsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect embeddings",
            .summary = "show which tokens have similar embeddings",
            .group = "inspect",
            .details =
                "Prints the norms of token and position embeddings, and the share of the variance "
                "of tokens in the first two principal components. With --token or --id, lists the "
                "nearest tokens by cosine similarity; otherwise those with the largest and the "
                "smallest norms.\n\n--svg makes a directory with tokens.svg (--points tokens, "
                "evenly over the ids, in these two components, coloured by what they look like, "
                "and the density of all), positions.svg (the cosine of each pair of positions), "
                "norms.svg, and with a token neighbours.svg.",
            .examples = {"folio inspect embeddings --model runs/demo",
                         "folio inspect embeddings -m runs/demo --token \" the\" --top 20",
                         "folio inspect embeddings -m runs/demo --id 262 --json",
                         "folio inspect embeddings -m runs/demo --svg embeddings --points 500"}};
  }

  void AddFlags(Flags& flags) override {
    view_.AddModel(flags);
    flags.List("--token", &tokens_, "list the neighbours of this token, given as text",
               {.placeholder = "TEXT"});
    flags.Value(
        Field{"id", &id_, "list the neighbours of this token, given by id", 0, 2147483647.0});
    flags.Value(Field{"top", &top_, "length of the lists", 1, 1e6});
    flags.Value(Field{"points", &points_, "tokens with names in the projection", 1, 1e6});
    view_.output.Add(flags, "draw the figures into a directory", "DIR");
  }

  int Run(const Context& context) override {
    RefuseTogether(!tokens_.empty() && id_.has_value(), "--token", "--id");
    const OpenedModel model = view_.Open(context.console);
    const std::optional<int32_t> token = ChosenToken(model);
    const EmbeddingsView view = InspectEmbeddings(model, token, top_, points_, [&] {
      context.console.SetStatus(fmt::format("principal components of {} tokens",
                                            WithCommas(model.weights->config().vocab_size)));
      ThrowIfStopRequested();
    });
    context.console.SetStatus("");
    view_.output.Show(context.console,
                      EmbeddingsReport(view, *model.weights, TokenNames(model.tokenizer.get())));
    return 0;
  }

 private:
  std::optional<int32_t> ChosenToken(const OpenedModel& model) const {
    const int64_t V = model.weights->config().vocab_size;
    if (id_ && *id_ >= V) {
      throw UsageError(fmt::format("--id {}: no such token", *id_),
                       fmt::format("the token ids are 0 to {}", V - 1));
    }
    if (id_) return static_cast<int32_t>(*id_);
    if (tokens_.empty()) return std::nullopt;
    const std::string& text = tokens_.back();
    const std::vector<int32_t> ids =
        model.RequireTokenizer().Encode(text, "--token", SpecialRule::Allow());
    if (ids.size() == 1) return ids.front();
    std::string list;
    for (const std::string& shown : TokenNames(model.tokenizer.get()).Shown(ids)) {
      list += " " + shown;
    }
    if (ids.empty()) throw UsageError("--token: the text is empty", {}, "give the text of a token");
    throw UsageError(fmt::format("--token '{}': {} tokens, not one", text, ids.size()),
                     "they are" + list, "give one of them, or the id of a token with --id");
  }

  ViewFlags view_{.output = {.directory = true}};
  std::vector<std::string> tokens_;
  std::optional<int64_t> id_;
  int64_t top_ = 10, points_ = 300;
};

class InspectActivationsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect activations",
        .summary = "show the sizes and outliers of a model's activations",
        .group = "inspect",
        .details =
            "For each point of each block, over all positions of the text: root mean square,\n"
            "mean, deviation and largest value; the median length of the rows, and the longest\n"
            "with its position; kurtosis (3 for a normal distribution), how many values are\n"
            "more than 6 deviations from the mean, and the units of the feed-forward layer that\n"
            "are off at every position (dead on this text). Below it the farthest values.\n\n"
            "Points, in order: embedded (tokens and positions), ln_1, qkv, heads (before\n"
            "c_proj), attention (what joins the stream), middle (the stream after it), ln_2,\n"
            "up (before the activation), activated, mlp (what joins the stream), output (the\n"
            "stream after the block), final (after the last norm).\n\n"
            "--svg draws the lengths of the rows over the layers; with --layer the root mean\n"
            "squares of that layer's points.",
        .examples = {"folio inspect activations --model runs/demo --text \"the cat sat\"",
                     "folio inspect activations -m runs/demo --file a.txt --tail --layer 2",
                     "folio inspect activations -m runs/demo --file a.txt --svg norms.svg",
                     "folio inspect activations -m runs/demo --text abc --json"}};
  }

  void AddFlags(Flags& flags) override {
    view_.Add(flags);
    flags.Value(Field{"layer", &layer_, "only this layer, from 0", 0, 1e6});
    view_.output.Add(flags, "draw a figure", "FILE");
  }

  int Run(const Context& context) override {
    const OpenedModel model = view_.Open(context.console);
    CheckIndex("layer", layer_, model.weights->config().n_layer);
    const ModelText text = ReadOneText(model, view_.text, "inspect activations");
    const Trace trace(*model.backend, *model.weights, text.ids, Trace::AllPoints(), text.mask);
    ThrowIfStopRequested();
    std::vector<ActivationStats> stats = ActivationStatistics(trace);
    if (layer_) {
      std::erase_if(
          stats, [&](const ActivationStats& one) { return one.layer != *layer_ || one.outside(); });
    }
    const TokenNames names(model.tokenizer.get());
    view_.output.Show(context.console, ActivationsReport(stats, text, names, layer_.has_value()));
    return 0;
  }

 private:
  ViewFlags view_;
  std::optional<int64_t> layer_;
};

class InspectProbabilitiesCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect probabilities",
            .summary = "show how well a model predicts each token of a text",
            .group = "inspect",
            .details =
                "Shows for each token except the first: its probability given the tokens before "
                "it, its rank (1 is the likeliest), its surprise (-ln probability), the entropy of "
                "the prediction, in nats, and the --top likeliest tokens. A terminal with colour "
                "also shows the text, in the style of GLTR: coloured by rank (up to 10, 100, 1000 "
                "and beyond), underlined from rank 11 and bold from rank 101. The last lines are "
                "the perplexity and the bits per byte of the predicted tokens.\n\nA text longer "
                "than the context is processed in windows that overlap by half, as in folio eval "
                "perplexity, so each token has at least half a context before it if the text has. "
                "--tail uses only the end.",
            .examples = {"folio inspect probabilities --model runs/demo --text \"the cat sat\"",
                         "folio inspect probabilities -m runs/demo --file a.txt --tail --svg a.svg",
                         "folio inspect probabilities -m runs/demo --file - --json < a.txt"}};
  }

  void AddFlags(Flags& flags) override {
    view_.Add(flags);
    flags.Value(Field{"top", &top_, "number of likeliest tokens to list", 1, 1e6});
    flags.Value(Field{"by", &by_, "the value that colours the text"}.Choices(
        {"rank", "probability", "entropy"}));
    view_.output.Add(flags, "draw the coloured text", "FILE");
  }

  int Run(const Context& context) override {
    const OpenedModel model = view_.Open(context.console);
    ModelText text = ReadOneText(model, view_.text, "inspect probabilities", TextLength::kAny);
    RequireTwoTokens(text, "the first token has no prediction");
    const TokenScores scores = ScoreTokens(model, std::move(text), top_);
    view_.output.Show(context.console,
                      TokenScoresReport(scores, by_, TokenNames(model.tokenizer.get())));
    return 0;
  }

 private:
  ViewFlags view_;
  int64_t top_ = 5;
  std::string by_ = "rank";
};

class InspectModelCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect model",
            .summary = "describe a model and list its parameters",
            .group = "inspect",
            .details =
                "Prints layers, heads, channels, context, vocabulary, whether the head is tied, "
                "the placement of norms and the activation; then each parameter with its shape. "
                "For a model file in any format it also prints the tokenizer and how each tensor "
                "is stored; a model that folio cannot run is listed with the reason. For a preset "
                "or settings it prints how each parameter is initialised. Nothing is allocated, so "
                "the model may have any size.",
            .examples = {"folio inspect model runs/demo", "folio inspect model gpt2.gguf --json",
                         "folio inspect model --preset gpt2-xl",
                         "folio inspect model --set model.n_layer=3 --set model.n_inner=1000"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    AddAdapterFlag(flags, &adapter_);
  }

  int Run(const Context& context) override {
    settings_.Resolve(context.sources);
    RequireModelFor(adapter_, settings_.path());
    const auto& [model, train, data, log] = settings_.config();
    ShowReport(context.console, settings_.path().empty()
                                    ? DescribeParameters(ParamTable(model, train.lora))
                                    : DescribeModel(settings_.path(), adapter_));
    return 0;
  }

 private:
  std::string adapter_;
  ModelSettings settings_;
};

class InspectPlanCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect plan",
            .summary = "list all buffers of a training step and their memory",
            .group = "inspect",
            .details =
                "A buffer is in use from its first to its last tick, which count the operations of "
                "one forward and backward pass; buffers that are not in use at the same time share "
                "memory. A buffer with a mirror is read or written by the host, too: on a backend "
                "with a memory of its own, the host's memory has as many bytes for it; "
                "gradients.received and gradients.sent lie in the host's memory alone. Nothing is "
                "allocated.",
            .examples = {"folio inspect plan --preset gpt2 --batch 4 --context 64",
                         "folio inspect plan --model runs/demo --json",
                         "folio inspect plan --preset gpt2 --batch 4 --ranks 8"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(
        Field{"ranks", &ranks_,
              "number of ranks: show the plan of the first one; they share the micro-batches", 1,
              1 << 20},
        {.placeholder = "N"});
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    TrainConfig train = settings_.config().train;
    train.grad_accumulation =
        std::max(ranks_ / train.tensor_parallel * train.reduce_every, train.grad_accumulation);
    const GptConfig& model = settings_.config().model;
    train.Validate("settings");
    RequireTensorParallelRanks(train, static_cast<int>(ranks_));
    RequireShards(model, train.lora, train.tensor_parallel);
    const TrainShape shape =
        ShapeOf(model, train, settings_.Context(),
                PassOptionsOf(train, model, *MakeBackend(train.backend)), static_cast<int>(ranks_));
    ShowReport(context.console, BuffersReport(shape));
    return 0;
  }

 private:
  ModelSettings settings_{std::vector<std::string>{
      "--batch", "--context", "--dtype", "--recompute", "--backend", "--lora",
      "--grad-accumulation", "--reduce-every", "--reduce-dtype", "--tensor-parallel"}};
  int64_t ranks_ = 1;
};

}  // namespace

CommandList InspectCommands() {
  CommandList list =
      CommandsOf<InspectAttentionCommand, InspectLensCommand, InspectEmbeddingsCommand,
                 InspectActivationsCommand, InspectProbabilitiesCommand, InspectModelCommand,
                 InspectPlanCommand>();
  list.push_back(InspectDump());
  return list;
}

}  // namespace folio
