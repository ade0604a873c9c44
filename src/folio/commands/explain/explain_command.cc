#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/commands/model_flags.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/lesson/lessons.h"
#include "folio/report/report.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

// The numbers of --values, at least one. Throws a kUsage Error that names what is no number.
std::vector<float> ParseValues(const std::string& values) {
  constexpr size_t kMaxValues = 4096;
  std::vector<float> numbers;
  for (std::string number : Split(values, ',')) {
    number.erase(0, number.find_first_not_of(' '));
    number.erase(number.find_last_not_of(' ') + 1);
    float value = 0;
    const char* const end = number.data() + number.size();
    const auto [at, problem] = std::from_chars(number.data(), end, value);
    if (problem != std::errc() || at != end || !std::isfinite(value)) {
      throw UsageError(fmt::format("--values: '{}' is not a number", number),
                       "expected numbers separated by commas", "for example --values 10,20,30");
    }
    numbers.push_back(value);
    if (numbers.size() > kMaxValues) {
      throw UsageError(fmt::format("--values: more than {} numbers", kMaxValues), {}, "give fewer");
    }
  }
  return numbers;
}

class ExplainCommand final : public Command {
 public:
  explicit ExplainCommand(const Lesson& lesson)
      : lesson_(lesson), text_(lesson.text), values_(lesson.values) {}

  CommandInfo info() const override {
    return {.name = "explain " + lesson_.name,
            .summary = lesson_.summary,
            .group = "explain",
            .details = lesson_.details,
            .examples = lesson_.examples};
  }

  void AddFlags(Flags& flags) override {
    AddLessonFlags(flags);
    if (Takes(kLessonModel)) {
      model_.AddModel(flags, lesson_.model_required);
      model_.AddCompute(flags);
    } else {
      AddBackendFlag(flags, &model_.backend);
    }
    flags.Group("output");
    flags.List("--step", &steps_, "show only this step: its name, with - for spaces",
               {.placeholder = "NAME"});
    output_.Add(flags, "write the figures into this directory", "DIR");
  }

  int Run(const Context& context) override {
    output_.Check(context.console);
    CheckInput();
    output_.Show(context.console, SelectSteps(Walk(context.console), steps_));
    return 0;
  }

 private:
  bool Takes(LessonPart part) const { return (lesson_.parts & part) != 0; }
  bool has_model() const { return !model_.model.empty(); }

  void AddLessonFlags(Flags& flags) {
    if (Takes(kLessonText)) {
      flags.Value(Field{"text", &text_, "the text to follow"}.WithFlag("-t,--text"),
                  {.meant = " "});
    }
    if (Takes(kLessonValues)) {
      flags.Value(Field{"values", &values_, "numbers, separated by commas"},
                  {.placeholder = "X,Y,..."});
    }
    if (Takes(kLessonForm)) {
      std::vector<std::string> forms = AttentionForms();
      forms.insert(forms.begin(), "all");
      flags.Value(Field{"form", &form_, "the form of attention to show"}.Choices(forms),
                  {.placeholder = "FORM"});
      flags.Value(Field{"vectors", &vectors_,
                        "your own vectors: a line of numbers for each token, optionally with a "
                        "label first, or a JSON array of arrays"},
                  {.placeholder = "FILE"});
      flags.Value(Field{"rng", &rng_, "random number generator for the weights"}.Choices(
          {"folio", "torch"}));
      flags.Value(Field{"dropout", &dropout_, "fraction of the weights that are dropped", 0, 0.99});
    }
    if (Takes(kLessonPositions)) {
      flags.Value(Field{"positions", &positions_, "how many positions", 1, 4096});
      flags.Value(Field{"channels", &channels_, "numbers for each position; even", 2, 4096});
    }
    if (Takes(kLessonSampling)) {
      flags.Value(Field{
          "temperature", &sampling_.temperature,
          "lower values are more predictable, higher ones more varied; 0: the likeliest token", 0,
          1e6});
      flags.Value(Field{"top-k", &sampling_.top_k, "keep the K likeliest tokens; 0: all", 0, 1e9});
      flags.Value(Field{"top-p", &sampling_.top_p,
                        "of these, keep the likeliest that together have this probability", 1e-9,
                        1});
    }
    if (Takes(kLessonForm) || Takes(kLessonSampling)) {
      flags.Value(Field{"seed", &seed_, "seed of the random numbers", 0, 9e15});
    }
    if (Takes(kLessonTokenizer)) AddTokenizerFlag(flags, &tokenizer_, /*required=*/false);
    if (Takes(kLessonLayer)) {
      flags.Value(Field{"layer", &layer_, "layer of the model, from 0", 0, 1e6});
    }
    if (Takes(kLessonHead)) {
      flags.Value(Field{"head", &head_, "head of the layer, from 0", 0, 1e6});
    }
  }

  // Throws a kUsage Error for flags that have no effect with the others.
  void CheckInput() const {
    if (Takes(kLessonText) && text_.empty()) {
      throw UsageError("--text: the text is empty", {}, "give a text");
    }
    const auto refuse = [](bool given, const char* flag, const char* cause, const char* help) {
      if (given) throw UsageError(fmt::format("{} cannot be used here", flag), cause, help);
    };
    if (!has_model()) {
      const char* const cause = "it applies only to models";
      const char* const help = "give a model with --model DIR";
      refuse(layer_.has_value(), "--layer", cause, help);
      refuse(head_.has_value(), "--head", cause, help);
      const bool models_text = Takes(kLessonModel) && !Takes(kLessonTokenizer);
      refuse(models_text && text_ != lesson_.text, "--text", "a text needs a model",
             Takes(kLessonForm) ? "give a model with --model DIR, or vectors with --vectors FILE"
                                : help);
      return;
    }
    const char* const cause = "--model defines it";
    const char* const help = "remove one of the two";
    refuse(values_ != lesson_.values, "--values", cause, help);
    refuse(form_ != "all", "--form", cause, help);
    refuse(channels_.has_value(), "--channels", cause, help);
    refuse(!tokenizer_.empty(), "--tokenizer", "the model has a tokenizer", help);
    if (Takes(kLessonForm)) {
      refuse(!vectors_.empty(), "--vectors", cause, help);
      refuse(seed_.has_value(), "--seed", cause, help);
      refuse(rng_ != "folio", "--rng", cause, help);
      refuse(dropout_ != 0.5, "--dropout", cause, help);
    }
  }

  LessonInput Input(Backend& backend) const {
    LessonInput input{.backend = backend,
                      .text = text_,
                      .attention = {.torch_rng = rng_ == "torch", .dropout = dropout_},
                      .sampling = sampling_,
                      .layer = layer_,
                      .head = head_,
                      .positions = positions_,
                      .channels = channels_};
    if (form_ != "all") input.attention.form = form_;
    if (!vectors_.empty()) input.attention.vectors = ReadTokenVectors(vectors_);
    if (seed_) input.attention.seed = input.sampling.seed = static_cast<uint64_t>(*seed_);
    return input;
  }

  Report Walk(Console& console) const {
    if (has_model()) {
      const OpenedModel model = model_.Open(console);
      LessonInput input = Input(*model.backend);
      input.model = &model;
      return lesson_.walk(input);
    }
    RequireModelFor(model_.adapter, model_.model);
    model_.compute.Use();
    const std::unique_ptr<Backend> backend = MakeBackend(model_.backend);
    LessonInput input = Input(*backend);
    if (Takes(kLessonValues)) input.values = ParseValues(values_);
    std::unique_ptr<Tokenizer> tokenizer;
    if (Takes(kLessonTokenizer)) {
      tokenizer = tokenizer_.empty() ? StoriesTokenizer() : OpenTokenizer(tokenizer_);
    }
    input.tokenizer = tokenizer.get();
    return lesson_.walk(input);
  }

  const Lesson& lesson_;
  ModelFlags model_;
  std::string text_, values_, vectors_, tokenizer_, form_ = "all", rng_ = "folio";
  std::optional<int64_t> layer_, head_, seed_, positions_, channels_;
  double dropout_ = 0.5;
  SamplingOptions sampling_{.temperature = 0.8, .top_k = 5, .top_p = 0.9};
  OutputFlags output_{.directory = true, .svg_alone = true};
  std::vector<std::string> steps_;
};

}  // namespace

CommandList ExplainCommands() {
  CommandList list;
  for (const Lesson& lesson : Lessons()) list.push_back(std::make_unique<ExplainCommand>(lesson));
  return list;
}

}  // namespace folio
