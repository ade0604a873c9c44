#include <fmt/format.h>

#include <optional>
#include <random>
#include <string>

#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
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
                "stands for its best checkpoint. The same seed gives the same text.",
            .examples = {"folio generate --model runs/demo --prompt \"Once upon a time\"",
                         "folio generate --model runs/demo --greedy --max-tokens 50",
                         "folio generate --model runs/demo --n 3 --seed 7 --json"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &model_, /*required=*/true);
    flags.Value(
        Field{"prompt", &prompt_, "how the text begins; nothing lets the model begin"}.WithFlag(
            "-p,--prompt"),
        {.placeholder = "TEXT"});
    flags.Value(Field{"max-tokens", &max_tokens_, "tokens to add at most", 0, 1e12});
    flags.Value(Field{"n", &n_, "texts to write", 1, 1e6}.WithFlag("-n,--n"));
    flags.Value(Field{"temperature", &temperature_,
                      "below 1 plays safe, above 1 dares; 0 is --greedy", 0, 1e6});
    flags.Switch("--greedy", &greedy_, "always take the likeliest token");
    flags.Value(Field{"top-k", &top_k_, "choose among the k likeliest tokens; 0 for all", 0, 1e9});
    flags.Value(
        Field{"top-p", &top_p_, "choose among the likeliest that reach probability p", 1e-9, 1});
    flags.Value(Field{"seed", &seed_, "of the choices; a random one if not given", 0, 9e15});
    compute_.Add(flags);
    AddBackendFlag(flags, &backend_);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    const OpenedModel model = OpenModel(model_, backend_);
    const Tokenizer& tokenizer = model.RequireTokenizer();
    const std::vector<int32_t> prompt = PromptTokens(tokenizer, prompt_);
    Generator generator(*model.backend, *model.weights);
    const GenerateOptions options{.sampling = {.temperature = greedy_ ? 0 : temperature_,
                                               .top_k = top_k_,
                                               .top_p = top_p_,
                                               .seed = Seed(context.console)},
                                  .max_tokens = max_tokens_};
    for (int64_t i = 0; i < n_ && StopRequested() == 0; ++i) {
      WriteOne(context.console, generator, tokenizer, prompt, options, i);
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

  void WriteOne(Console& console, Generator& generator, const Tokenizer& tokenizer,
                const std::vector<int32_t>& prompt, const GenerateOptions& options, int64_t i) {
    const bool json = console.json();
    if (!json) console.Result((i > 0 ? "\n" : "") + prompt_);
    const WrittenText written = WriteText(generator, tokenizer, prompt, options,
                                          static_cast<uint64_t>(i), [&](std::string_view text) {
                                            if (!json) console.Result(text);
                                            return StopRequested() == 0;
                                          });
    if (!json) {
      console.Result("\n");
      return;
    }
    console.Result(Json{{"schema", 1},
                        {"index", i},
                        {"prompt", prompt_},
                        {"text", written.text},
                        {"prompt_ids", prompt},
                        {"ids", written.ids},
                        {"finish_reason", ReasonName(written.reason)},
                        {"seed", *seed_}}
                       .dump() +
                   "\n");
  }

  std::string model_, prompt_, backend_ = "cpu";
  int64_t max_tokens_ = 256, n_ = 1, top_k_ = 0;
  ComputeFlags compute_;
  std::optional<int64_t> seed_;
  double temperature_ = 1, top_p_ = 1;
  bool greedy_ = false;
};

}  // namespace

std::unique_ptr<Command> NewGenerateCommand() {
  return std::make_unique<GenerateCommand>();
}

}  // namespace folio
