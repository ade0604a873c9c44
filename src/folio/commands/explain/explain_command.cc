#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/cli/flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/data/stories.h"
#include "folio/io/file.h"
#include "folio/lesson/render.h"
#include "folio/lesson/select_steps.h"
#include "folio/lesson/topics.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The flags that one topic of `folio explain` or another has.
enum ExplainFlag : unsigned {
  kExplainModel = 1,      // --model
  kExplainText = 2,       // --text
  kExplainLayer = 4,      // --layer
  kExplainHead = 8,       // --head
  kExplainForm = 16,      // --form, --seed, --rng, --dropout
  kExplainValues = 32,    // --values
  kExplainSampling = 64,  // --temperature, --top-k, --top-p, --seed
  kExplainPositions = 128,
  kExplainTokenizer = 256,
};

struct ExplainInput;

// What `folio explain NAME` does.
struct ExplainTopic {
  std::string name, summary, details;
  std::vector<std::string> examples;
  unsigned flags = 0;       // ExplainFlag
  std::string values = {};  // of --values if not given
  std::string text = {};    // of --text if not given
  bool model_required = false;
  Walk (*walk)(const ExplainInput& input) = nullptr;
};

// What was given.
struct ExplainInput {
  ModelFlags model;
  std::string text, values, tokenizer, form = "all", rng = "folio";
  std::optional<int64_t> layer, head, seed, positions, channels;
  double dropout = 0.5;
  SamplingOptions sampling{.temperature = 0.8, .top_k = 5, .top_p = 0.9};

  void Add(Flags& flags, const ExplainTopic& topic);
  // Throws a kUsage Error for flags that have no meaning beside the others.
  void Check(const ExplainTopic& topic) const;

  bool has_model() const { return !model.model.empty(); }
  // The numbers of --values, one at least. Throws a kUsage Error that names what is no number.
  std::vector<float> Values() const;
};

constexpr size_t kMaxValues = 4096;

float NumberOf(const std::string& text) {
  float number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, number);
  if (problem == std::errc() && at == end && std::isfinite(number)) return number;
  throw UsageError(fmt::format("--values: '{}' is no number", text),
                   "numbers with a comma between each two are expected",
                   "for example --values 10,20,30");
}

void ExplainInput::Add(Flags& flags, const ExplainTopic& topic) {
  text = topic.text;
  values = topic.values;
  const auto has = [&](ExplainFlag flag) { return (topic.flags & flag) != 0; };
  if (has(kExplainText)) {
    flags.Value(Field{"text", &text, "the text to follow"}.WithFlag("-t,--text"));
  }
  if (has(kExplainValues)) {
    flags.Value(Field{"values", &values, "numbers with commas between them"},
                {.placeholder = "X,Y,..."});
  }
  if (has(kExplainForm)) {
    std::vector<std::string> forms = AttentionForms();
    forms.insert(forms.begin(), "all");
    flags.Value(Field{"form", &form, "the form of attention to show"}.Choices(forms),
                {.placeholder = "FORM"});
    flags.Value(Field{"rng", &rng, "whose numbers random weights are drawn from"}.Choices(
        {"folio", "torch"}));
    flags.Value(Field{"dropout", &dropout, "share of the weights that are dropped", 0, 0.99});
  }
  if (has(kExplainPositions)) {
    flags.Value(Field{"positions", &positions, "how many positions", 1, 4096});
    flags.Value(Field{"channels", &channels, "numbers for each position; even", 2, 4096});
  }
  if (has(kExplainSampling)) {
    flags.Value(Field{"temperature", &sampling.temperature,
                      "below 1 plays safe, above 1 dares; 0 takes the likeliest", 0, 1e6});
    flags.Value(
        Field{"top_k", &sampling.top_k, "keep the k likeliest tokens; 0 for all", 0, 1e9}.WithFlag(
            "--top-k"));
    flags.Value(Field{"top_p", &sampling.top_p, "of these keep what reaches probability p", 1e-9, 1}
                    .WithFlag("--top-p"));
  }
  if (has(kExplainForm) || has(kExplainSampling)) {
    flags.Value(Field{"seed", &seed, "of what is drawn", 0, 9e15});
  }
  if (has(kExplainTokenizer)) {
    flags.Value(Field{"tokenizer", &tokenizer,
                      "a published encoding (gpt2, cl100k_base), bytes, or the path of a "
                      "tokenizer's directory or file"},
                {.placeholder = "NAME|DIR|FILE"});
  }
  if (has(kExplainLayer)) flags.Value(Field{"layer", &layer, "layer of the model, from 0", 0, 1e6});
  if (has(kExplainHead)) flags.Value(Field{"head", &head, "head of the layer, from 0", 0, 1e6});
  if (has(kExplainModel)) {
    model.Add(flags, topic.model_required);
  }
}

void ExplainInput::Check(const ExplainTopic& topic) const {
  if ((topic.flags & kExplainText) != 0 && text.empty()) {
    throw UsageError("--text: the text is empty", {}, "give it some text");
  }
  const auto refuse = [](bool given, const char* flag, const char* cause, const char* help) {
    if (given) throw UsageError(fmt::format("{} has no meaning here", flag), cause, help);
  };
  if (!has_model()) {
    const char* const cause = "it belongs to a model";
    const char* const help = "name one with --model DIR";
    refuse(layer.has_value(), "--layer", cause, help);
    refuse(head.has_value(), "--head", cause, help);
    const bool own_text = (topic.flags & kExplainModel) != 0 && (topic.flags & kExplainText) != 0;
    refuse(own_text && text != topic.text && topic.name != "tokenize", "--text", cause, help);
    return;
  }
  const char* const cause = "--model has numbers of its own";
  const char* const help = "leave one of the two out";
  refuse(values != topic.values, "--values", cause, help);
  refuse(form != "all", "--form", cause, help);
  refuse(channels.has_value(), "--channels", cause, help);
  refuse(!tokenizer.empty(), "--tokenizer", "--model has one", help);
  if (topic.name == "attention") {
    refuse(seed.has_value(), "--seed", cause, help);
    refuse(rng != "folio", "--rng", cause, help);
    refuse(dropout != 0.5, "--dropout", cause, help);
  }
}

std::vector<float> ExplainInput::Values() const {
  std::vector<float> numbers;
  for (std::string number : Split(values, ',')) {
    number.erase(0, number.find_first_not_of(' '));
    number.erase(number.find_last_not_of(' ') + 1);
    numbers.push_back(NumberOf(number));
    if (numbers.size() > kMaxValues) {
      throw UsageError(fmt::format("--values: more than {} numbers", kMaxValues), {},
                       "nobody would look at them one by one");
    }
  }
  return numbers;
}

constexpr char kText[] = "Your journey starts with one step";

// What a walk without a model runs on.
std::unique_ptr<Backend> BackendOf(const ExplainInput& input) {
  input.model.compute.Use();
  return MakeBackend(input.model.backend);
}

// Calls `walk` with the model of the flags.
template <class F>
Walk WithModel(const ExplainInput& input, F&& walk) {
  const OpenedModel opened = OpenModel(input.model);
  return walk(*opened.backend, ExplainModel{.weights = opened.weights.get(),
                                            .tokenizer = &opened.RequireTokenizer()});
}

SamplingOptions SamplingOf(const ExplainInput& input) {
  SamplingOptions sampling = input.sampling;
  sampling.seed = static_cast<uint64_t>(input.seed.value_or(0));
  return sampling;
}

Walk Attention(const ExplainInput& input) {
  if (input.has_model()) {
    return WithModel(input, [&](Backend& backend, const ExplainModel& model) {
      return ExplainAttention(backend, model, input.text, input.layer.value_or(0),
                              input.head.value_or(0));
    });
  }
  AttentionTopic topic{.torch_rng = input.rng == "torch", .dropout = input.dropout};
  if (input.form != "all") topic.form = input.form;
  if (input.seed) topic.seed = static_cast<uint64_t>(*input.seed);
  return ExplainAttention(*BackendOf(input), topic);
}

Walk Positions(const ExplainInput& input) {
  if (input.has_model()) {
    // Positions are looked at without a text: no tokenizer is needed.
    const OpenedModel opened = OpenModel(input.model);
    const ExplainModel model{.weights = opened.weights.get(), .tokenizer = opened.tokenizer.get()};
    const int64_t P = opened.weights->config().n_positions;
    if (input.positions.value_or(P) > P) {
      throw UsageError(fmt::format("--positions {}: the model has {}", *input.positions, P), {},
                       fmt::format("give at most {}", P));
    }
    return ExplainPositions(*opened.backend, model, input.positions.value_or(P));
  }
  return ExplainPositions(*BackendOf(input), input.positions.value_or(24),
                          input.channels.value_or(8));
}

Walk LayerNorm(const ExplainInput& input) {
  if (input.has_model()) {
    return WithModel(input, [&](Backend& backend, const ExplainModel& model) {
      return ExplainLayerNorm(backend, model, input.text, input.layer.value_or(0));
    });
  }
  return ExplainLayerNorm(*BackendOf(input), input.Values());
}

Walk Gelu(const ExplainInput& input) {
  return ExplainGelu(*BackendOf(input), input.Values());
}

Walk Softmax(const ExplainInput& input) {
  return ExplainSoftmax(*BackendOf(input), input.Values());
}

// A vocabulary of 400 tokens, learned from the built-in stories.
BpeTokenizer SmallTokenizer() {
  BpeTrainer trainer({.vocab_size = 400});
  GenerateStories(/*seed=*/0, /*bytes=*/50'000,
                  [&](std::string_view story) { trainer.AddText(story); });
  return BpeTokenizer(trainer.Train());
}

Walk Tokenize(const ExplainInput& input) {
  if (input.has_model()) {
    return WithModel(input, [&](Backend&, const ExplainModel& model) {
      return ExplainTokenize(*model.tokenizer, input.text);
    });
  }
  if (!input.tokenizer.empty()) {
    return ExplainTokenize(*OpenTokenizer(input.tokenizer), input.text);
  }
  return ExplainTokenize(SmallTokenizer(), input.text);
}

Walk Block(const ExplainInput& input) {
  return WithModel(input, [&](Backend& backend, const ExplainModel& model) {
    return ExplainBlock(backend, model, input.text, SamplingOf(input));
  });
}

Walk Sampling(const ExplainInput& input) {
  if (input.has_model()) {
    return WithModel(input, [&](Backend& backend, const ExplainModel& model) {
      return ExplainSampling(backend, model, input.text, SamplingOf(input));
    });
  }
  const std::vector<float> logits = input.Values();
  std::vector<std::string> labels = {"forest", "village", "king", "queen", "cat",
                                     "shoe",   "of",      "moon", "the"};
  if (logits.size() != labels.size()) {
    labels.clear();
    for (size_t i = 0; i < logits.size(); ++i) labels.push_back(std::to_string(i));
  }
  return ExplainSampling(*BackendOf(input), logits, labels, SamplingOf(input));
}

const std::vector<ExplainTopic>& ExplainTopics() {
  static const std::vector<ExplainTopic> topics = {
      {.name = "attention",
       .summary = "every form of attention, or one head of a model, step by step",
       .details =
           "Without a model: six vectors of three numbers go through attention without weights,\n"
           "one head, causal attention, several heads, cross-attention and grouped heads.\n"
           "--rng torch draws what PyTorch draws with the same seed.",
       .examples = {"folio explain attention", "folio explain attention --step context-of-journey",
                    "folio explain attention --form causal --svg figures",
                    "folio explain attention --model runs/demo --text \"Once upon a time\" "
                    "--layer 1 --head 2"},
       .flags = kExplainForm | kExplainModel | kExplainText | kExplainLayer | kExplainHead,
       .text = kText,
       .walk = Attention},
      {.name = "positions",
       .summary = "how a model knows the order of tokens",
       .details = "Sinusoids, or the positions that a model has learned.",
       .examples = {"folio explain positions --channels 4 --positions 6",
                    "folio explain positions --model runs/demo"},
       .flags = kExplainPositions | kExplainModel,
       .walk = Positions},
      {.name = "layernorm",
       .summary = "what layer normalisation does to a vector",
       .details = "To numbers of your own, or to the last token of a text in a model's layer.",
       .examples = {"folio explain layernorm --values 2,-1,0.5,3",
                    "folio explain layernorm --model runs/demo --text \"Once\" --layer 1"},
       .flags = kExplainValues | kExplainModel | kExplainText | kExplainLayer,
       .values = "2,-1,0.5,3,-0.5,1",
       .text = kText,
       .walk = LayerNorm},
      {.name = "gelu",
       .summary = "the activation between the two layers of the feed-forward part",
       .details = "Beside ReLU, and with its slope.",
       .examples = {"folio explain gelu --values -2,-1,0,1,2 --svg figures"},
       .flags = kExplainValues,
       .values = "-4,-3.5,-3,-2.5,-2,-1.5,-1,-0.5,0,0.5,1,1.5,2,2.5,3,3.5,4",
       .walk = Gelu},
      {.name = "softmax",
       .summary = "from any numbers to shares of a whole",
       .details = "With why it overflows as it is written, and why attention scales its scores.",
       .examples = {"folio explain softmax --values 10,20,30",
                    "folio explain softmax --step naive-softmax --step overflow"},
       .flags = kExplainValues,
       .values = "10,20,30",
       .walk = Softmax},
      {.name = "tokenize",
       .summary = "from text to token ids, merge by merge",
       .details = "Without a tokenizer: with one of 400 tokens that learns from the built-in\n"
                  "stories first.",
       .examples = {"folio explain tokenize --text \"Once upon a time\"",
                    "folio explain tokenize --model runs/demo --text \"Once upon a time\""},
       .flags = kExplainText | kExplainTokenizer | kExplainModel,
       .text = "The little journey began",
       .walk = Tokenize},
      {.name = "block",
       .summary = "one token from its id to the probabilities of the next, through a model",
       .details =
           "Look-up, every layer's heads and feed-forward part, the residual stream, logits\n"
           "and the choice of the next token.",
       .examples = {"folio explain block --model runs/demo --text \"Once upon a time\"",
                    "folio explain block --model runs/demo --html block.html"},
       .flags = kExplainModel | kExplainText | kExplainSampling,
       .text = kText,
       .model_required = true,
       .walk = Block},
      {.name = "sampling",
       .summary = "temperature, top-k and top-p on the scores of the next token",
       .details = "On a few words' scores, on --values, or on a model's after a text.",
       .examples = {"folio explain sampling --temperature 0.5 --top-k 3",
                    "folio explain sampling --model runs/demo --text \"Once upon a\" --top-p 0.9"},
       .flags = kExplainValues | kExplainModel | kExplainText | kExplainSampling,
       .values = "4.5,3.9,3.2,2.8,1.9,0.6,-0.4,-1.7,-3",
       .text = kText,
       .walk = Sampling},
  };
  return topics;
}

class ExplainCommand final : public Command {
 public:
  explicit ExplainCommand(const ExplainTopic& topic) : topic_(topic) {}

  CommandInfo info() const override {
    return {.name = "explain " + topic_.name,
            .summary = topic_.summary,
            .group = "explain",
            .details = topic_.details,
            .examples = topic_.examples};
  }

  void AddFlags(Flags& flags) override {
    input_.Add(flags, topic_);
    if ((topic_.flags & kExplainModel) == 0) {
      flags.Value(
          Field{"backend", &input_.model.backend, "what computes"}.Choices({"cpu", "reference"}));
    }
    flags.Group("output");
    flags.List("--step", &steps_, "show only this step; its name with - for spaces",
               {.placeholder = "NAME"});
    flags.Value(Field{"svg", &svg_, "write the figures into this directory"},
                {.placeholder = "DIR"});
    flags.Value(Field{"html", &html_, "write a page with all of it; - for standard output"},
                {.placeholder = "FILE"});
  }

  int Run(const Context& context) override {
    Console& console = context.console;
    RefuseTogether(html_ == "-" && console.json(), "--html -", "--json");
    input_.Check(topic_);
    CheckOutputs();
    const Walk walk = SelectSteps(topic_.walk(input_), steps_);
    // Before stdout: its reader may go away.
    if (!svg_.empty()) WriteFigures(walk, console);
    if (html_ == "-") {
      console.Result(WalkHtml(walk));
      return 0;
    }
    if (!html_.empty()) {
      CreateParentOf(html_);
      WriteFileAtomically(html_, WalkHtml(walk));
      console.Note(fmt::format("wrote {}", html_));
    }
    const Terminal& out = console.out();
    console.Result(
        console.json()
            ? WalkJson(walk)
            : WalkText(walk, {.colour = out.color, .utf8 = out.utf8, .width = out.width}));
    return 0;
  }

 private:
  void CheckOutputs() const {
    std::error_code ignored;
    CheckFigureDirectory(svg_);
    if (!html_.empty() && fs::is_directory(html_, ignored)) {
      throw UsageError(fmt::format("--html {}: is a directory", html_), {}, "name a file");
    }
  }

  void WriteFigures(const Walk& walk, Console& console) const {
    const auto figures = WalkFigures(walk);
    CreateDirectories(svg_);
    for (const auto& [name, svg] : figures) WriteFileAtomically(fs::path(svg_) / name, svg);
    console.Note(fmt::format("wrote {} {} to {}", figures.size(),
                             figures.size() == 1 ? "figure" : "figures", svg_));
  }

  const ExplainTopic& topic_;
  ExplainInput input_;
  std::string svg_, html_;
  std::vector<std::string> steps_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> NewExplainCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const ExplainTopic& topic : ExplainTopics()) {
    commands.push_back(std::make_unique<ExplainCommand>(topic));
  }
  return commands;
}

}  // namespace folio
