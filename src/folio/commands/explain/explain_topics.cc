#include <fmt/format.h>

#include <memory>

#include "folio/base/error.h"
#include "folio/commands/explain/explain_input.h"
#include "folio/data/stories.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

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

}  // namespace

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

}  // namespace folio
