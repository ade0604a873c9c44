#include "folio/commands/explain/explain_input.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

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

}  // namespace

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

}  // namespace folio
