#include <fmt/format.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "folio/base/strings.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/generate/prompts.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/text_writer.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

std::string_view ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

class GenerateCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "generate",
            .summary = "write text with a trained model",
            .group = "model",
            .details =
                "Prints the prompt and what the model adds to it, as it comes. A run directory\n"
                "stands for its best checkpoint. The same seed gives the same text, alone or\n"
                "among others. A prompt may be given with or without --prompt, in a file (its\n"
                "last line break is left out) or on standard input. Several prompts are\n"
                "continued one after the other. A model without a tokenizer takes --ids and\n"
                "prints ids, or the text of --tokenizer. With --chat a model that was trained on\n"
                "conversations answers.",
            .examples = {"folio generate --model runs/demo --prompt \"Once upon a time\"",
                         "folio generate --model runs/demo --greedy --max-tokens 50",
                         "folio generate --model runs/demo --n 3 --seed 7 --json",
                         "echo \"Once upon a time\" | folio generate --model runs/demo",
                         "folio generate --model runs/demo --prompts prompts.txt --json",
                         "folio generate --model runs/answers --chat \"Who are you?\"",
                         "folio generate --model runs/bare --ids 464,2068"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &model_, /*required=*/true);
    load_.Add(flags);
    prompts_.Add(flags);
    flags.Value(Field{"tokenizer", &tokenizer_,
                      "of a model that came without one: a published encoding, or the path of a "
                      "tokenizer's directory or file"},
                {.placeholder = "NAME|DIR|FILE"});
    flags.Value(Field{"max-tokens", &max_tokens_, "tokens to add at most", 0, 1e12});
    flags.Value(Field{"n", &n_, "texts to write for each prompt", 1, 1e6}.WithFlag("-n,--n"));
    flags.Value(Field{"temperature", &temperature_,
                      "below 1 plays safe, above 1 dares; 0 is --greedy", 0, 1e6});
    flags.Switch("--greedy", &greedy_, "always take the likeliest token");
    flags.Value(Field{"top-k", &top_k_,
                      "choose among the k likeliest tokens and equals of the last; 0 for all", 0,
                      1e9});
    flags.Value(
        Field{"top-p", &top_p_, "choose among the likeliest that reach probability p", 1e-9, 1});
    flags.Value(Field{"seed", &seed_, "of the choices; a random one if not given", 0, 9e15});
    compute_.Add(flags);
    AddBackendFlag(flags, &backend_);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    const OpenedModel model = OpenModel(
        model_, {.backend = backend_, .tokenizer = tokenizer_, .loading = load_.loading()});
    const std::vector<Prompt> prompts = ReadPrompts(model, prompts_);
    Generator generator(*model.backend, *model.weights);
    GenerateOptions options{.sampling = {.temperature = greedy_ ? 0 : temperature_,
                                         .top_k = top_k_,
                                         .top_p = top_p_,
                                         .seed = Seed(context.console)},
                            .max_tokens = max_tokens_};
    if (const auto end = model.weights->config().eos_token_id) {
      options.stop_tokens.push_back(static_cast<int32_t>(*end));
    }
    for (size_t p = 0; p < prompts.size(); ++p) {
      generator.Check(prompts[p].ids, options,
                      prompts.size() == 1 ? "the prompt" : fmt::format("prompt {}", p + 1));
    }
    for (size_t p = 0; p < prompts.size(); ++p) {
      for (int64_t i = 0; i < n_ && StopRequested() == 0; ++i) {
        const std::string before = p + static_cast<size_t>(i) > 0 ? "\n" : "";
        if (!context.console.json()) context.console.Result(before + prompts[p].text);
        const WrittenText written =
            Write(context.console, generator, model, prompts[p].ids, options, i);
        context.console.Result(context.console.json() ? Line(prompts[p], p, written, model, i)
                                                      : "\n");
        NoteStats(context.console, generator.stats(), model.weights->config().n_positions);
      }
    }
    return StopRequested() != 0 ? SignalExitStatus(StopRequested()) : 0;
  }

 private:
  uint64_t Seed(Console& console) {
    if (!seed_) {
      seed_ = std::random_device{}();
      if (!greedy_ && temperature_ > 0) console.Note(fmt::format("seed {}", *seed_));
    }
    return static_cast<uint64_t>(*seed_);
  }

  // Continues a prompt, and shows the text, or without a tokenizer the ids, as they come.
  static WrittenText Write(Console& console, Generator& generator, const OpenedModel& model,
                           const std::vector<int32_t>& prompt, const GenerateOptions& options,
                           int64_t i) {
    const auto show = [&](std::string_view text) {
      if (!console.json()) console.Result(text);
      return StopRequested() == 0;
    };
    const auto sequence = static_cast<uint64_t>(i);
    if (model.tokenizer != nullptr) {
      return WriteText(generator, *model.tokenizer, prompt, options, sequence, show);
    }
    WrittenText written;
    written.reason = generator.Generate(prompt, options, sequence, [&](int32_t id) {
      written.ids.push_back(id);
      return show(fmt::format(" {}", id));
    });
    return written;
  }

  std::string Line(const Prompt& prompt, size_t p, const WrittenText& written,
                   const OpenedModel& model, int64_t i) const {
    Json json{{"schema", 1}, {"prompt_index", p}, {"index", i}};
    if (model.tokenizer != nullptr) {
      json["prompt"] = prompt.text;
      json["text"] = written.text;
    }
    json["prompt_ids"] = prompt.ids;
    json["ids"] = written.ids;
    json["finish_reason"] = ReasonName(written.reason);
    json["seed"] = *seed_;
    return json.dump() + "\n";
  }

  void NoteStats(Console& console, const GenerateStats& stats, int64_t n_positions) {
    if (stats.slides > 0 && !std::exchange(told_of_sliding_, true)) {
      const double slides = static_cast<double>(stats.slides);
      console.Note(fmt::format(
          "the context of {} tokens is full: every {} tokens the model forgets the oldest {} and "
          "reads the other {} again, {} each time",
          WithCommas(n_positions), WithCommas(stats.stride), WithCommas(stats.stride),
          WithCommas(n_positions - stats.stride), HumanSeconds(stats.slide_seconds / slides)));
    }
    if (console.verbosity() < 1 || stats.prompt_seconds == 0) return;
    const auto rate = [](int64_t tokens, double seconds) {
      return fmt::format("{} tokens in {} ({} tokens/s)", WithCommas(tokens), HumanSeconds(seconds),
                         HumanCount(static_cast<double>(tokens) / seconds));
    };
    std::string note = "prompt: " + rate(stats.prompt_tokens, stats.prompt_seconds);
    if (stats.tokens > 0) note += "; generation: " + rate(stats.tokens, stats.seconds);
    console.Note(note);
  }

  std::string model_, tokenizer_, backend_ = "cpu";
  LoadFlag load_;
  PromptFlags prompts_;
  int64_t max_tokens_ = 256, n_ = 1, top_k_ = 0;
  ComputeFlags compute_;
  std::optional<int64_t> seed_;
  double temperature_ = 1, top_p_ = 1;
  bool greedy_ = false, told_of_sliding_ = false;
};

}  // namespace

std::unique_ptr<Command> NewGenerateCommand() {
  return std::make_unique<GenerateCommand>();
}

}  // namespace folio
