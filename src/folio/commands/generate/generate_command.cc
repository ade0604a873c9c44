#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/generate/line_input.h"
#include "folio/commands/generate/prompts.h"
#include "folio/commands/generate/sampling_flags.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/stop_strings.h"
#include "folio/infer/text_writer.h"
#include "folio/inspect/token_names.h"
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
                "conversations answers, with --interactive as well in a conversation.\n"
                "\n"
                "A token is chosen by the model's logits after a bias, penalties for what was\n"
                "there before and bans; then come the temperature and the cuts top-k, top-p,\n"
                "min-p and typical, each of what the one before it has left.",
            .examples = {"folio generate --model runs/demo --prompt \"Once upon a time\"",
                         "folio generate --model runs/demo --greedy --max-tokens 50",
                         "folio generate --model runs/demo --n 3 --seed 7 --json",
                         "echo \"Once upon a time\" | folio generate --model runs/demo",
                         "folio generate --model runs/demo --prompts prompts.txt --json",
                         "folio generate --model runs/demo --stop \"The end\" --min-p 0.1",
                         "folio generate --model runs/answers --chat \"Who are you?\"",
                         "folio generate --model runs/answers --chat --interactive",
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
    flags.Value(Field{"dtype", &dtype_,
                      "what the matrices are kept and multiplied as; auto: as they are stored"}
                    .Choices(MatrixDtypeNames()));
    flags.Value(Field{"max-tokens", &max_tokens_, "tokens to add at most", 0, 1e12});
    flags.Value(Field{"n", &n_, "texts to write for each prompt", 1, 1e6}.WithFlag("-n,--n"));
    flags.List("--stop", &stops_, "a text that ends what is written, and is not shown",
               {.placeholder = "TEXT"});
    flags.Value(
        Field{"when-full", &when_full_, "at a full context: forget the oldest or end"}.Choices(
            {"slide", "stop"}));
    flags.Value(Field{"stride", &stride_, "tokens to forget then; else half the context"});
    flags.Switch("--truncate", &truncate_, "of a prompt beyond the context take the end");
    flags.Switch("--interactive", &interactive_,
                 "continue, or with --chat answer, each line of input");
    flags.Value(Field{"probabilities", &likeliest_,
                      "with --json: the model's, and of the n likeliest", 0, 1e6});
    compute_.Add(flags);
    AddBackendFlag(flags, &backend_);
    sampling_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    Console& console = context.console;
    CheckFlags(console);
    const OpenedModel model = OpenModel(model_, {.backend = backend_,
                                                 .tokenizer = tokenizer_,
                                                 .loading = load_.loading(),
                                                 .matrices = MatrixDtypeNamed(dtype_)});
    Generator generator(*model.backend, *model.weights);
    if (interactive_) {
      Converse(console, generator, model, Options(model, console));
    } else {
      const std::vector<Prompt> prompts = ReadPrompts(model, prompts_);
      ContinueAll(console, generator, model, prompts, Options(model, console));
    }
    NoteSpeed(console);
    return StopRequested() != 0 ? SignalExitStatus(StopRequested()) : 0;
  }

 private:
  void CheckFlags(const Console& console) const {
    RefuseTogether(interactive_ && prompts_.given(), "--interactive", "a prompt");
    RefuseTogether(interactive_ && n_ > 1, "--interactive", "--n");
    [[maybe_unused]] const StopStrings throws{stops_};
    if (likeliest_ && !console.json()) {
      throw UsageError("--probabilities needs --json", "a text has no place for them",
                       "add --json, or see folio inspect probabilities");
    }
  }

  GenerateOptions Options(const OpenedModel& model, Console& console) {
    const GptConfig& config = model.weights->config();
    if (!stops_.empty()) model.RequireTokenizer(", or leave out --stop");
    GenerateOptions options{.sampling = sampling_.Options(config.vocab_size, console),
                            .max_tokens = max_tokens_,
                            .stop_strings = stops_,
                            .when_full = when_full_ == "stop" ? WhenFull::kStop : WhenFull::kSlide,
                            .stride = stride_,
                            .truncate = truncate_,
                            .likeliest = likeliest_};
    if (config.eos_token_id) {
      options.stop_tokens.push_back(static_cast<int32_t>(*config.eos_token_id));
    }
    return options;
  }

  void ContinueAll(Console& console, Generator& generator, const OpenedModel& model,
                   const std::vector<Prompt>& prompts, const GenerateOptions& options) {
    for (size_t p = 0; p < prompts.size(); ++p) {
      generator.Check(prompts[p].ids, options,
                      prompts.size() == 1 ? "the prompt" : fmt::format("prompt {}", p + 1));
    }
    for (size_t p = 0; p < prompts.size(); ++p) {
      for (int64_t i = 0; i < n_ && StopRequested() == 0; ++i) {
        const std::string before = p + static_cast<size_t>(i) > 0 ? "\n" : "";
        if (!console.json()) console.Result(before + prompts[p].text);
        Tell(console, generator, model, prompts[p], options, p, i, static_cast<uint64_t>(i));
      }
    }
  }

  // Line after line of standard input: each continued by itself, or all of them a conversation.
  void Converse(Console& console, Generator& generator, const OpenedModel& model,
                const GenerateOptions& options) {
    std::optional<ChatSession> session;
    if (prompts_.chat) {
      session.emplace(*model.tokenizer, RequireChat(model), model.weights->config().n_positions,
                      max_tokens_);
    }
    LineInput lines(console);
    for (uint64_t turn = 0; StopRequested() == 0; ++turn) {
      const std::optional<std::string> line = lines.Next();
      if (!line) return;
      Prompt prompt{*line, {}};
      if (session) {
        ChatSession::Question question = session->Ask(*line);
        if (question.forgotten > 0) {
          console.Note(
              fmt::format("the conversation no longer fits the context: turns forgotten "
                          "at its beginning: {}",
                          question.forgotten));
        }
        prompt.ids = std::move(question.ids);
      } else {
        prompt = PromptOf(model, *line, "line");
        if (!console.json()) console.Result(prompt.text);
      }
      generator.Check(prompt.ids, options);
      const WrittenText written =
          Tell(console, generator, model, prompt, options, turn, 0, session ? turn : 0);
      if (session) session->Answered(written.ids);
    }
  }

  // Continues prompt p for the i-th time.
  WrittenText Tell(Console& console, Generator& generator, const OpenedModel& model,
                   const Prompt& prompt, const GenerateOptions& options, size_t p, int64_t i,
                   uint64_t sequence) {
    WrittenText written = Write(console, generator, model, prompt.ids, options, sequence);
    const GenerateStats& stats = generator.stats();
    console.Result(console.json() ? Line(prompt, p, i, written, model, options, stats) : "\n");
    NoteStats(console, stats, model.weights->config().n_positions);
    total_.tokens += stats.tokens;
    total_.seconds += stats.seconds;
    return written;
  }

  // Continues a prompt, and shows the text, or without a tokenizer the ids, as they come.
  static WrittenText Write(Console& console, Generator& generator, const OpenedModel& model,
                           const std::vector<int32_t>& prompt, const GenerateOptions& options,
                           uint64_t sequence) {
    const auto show = [&](std::string_view text) {
      if (!console.json()) console.Result(text);
      return StopRequested() == 0;
    };
    if (model.tokenizer != nullptr) {
      return WriteText(generator, *model.tokenizer, prompt, options, sequence, show);
    }
    WrittenText written;
    written.reason = generator.Generate(prompt, options, sequence, [&](int32_t id) {
      written.ids.push_back(id);
      if (options.likeliest) written.probabilities.push_back(generator.probabilities());
      return show(fmt::format(" {}", id));
    });
    return written;
  }

  static std::string Line(const Prompt& prompt, size_t p, int64_t i, const WrittenText& written,
                          const OpenedModel& model, const GenerateOptions& options,
                          const GenerateStats& stats) {
    Json json{{"schema", 1}, {"prompt_index", p}, {"index", i}};
    if (model.tokenizer != nullptr) {
      json["prompt"] = prompt.text;
      json["text"] = written.text;
    }
    json["prompt_ids"] = prompt.ids;
    json["ids"] = written.ids;
    if (options.likeliest) json["probabilities"] = Probabilities(written, model);
    json["finish_reason"] = ReasonName(written.reason);
    json["seed"] = options.sampling.seed;
    json["prompt_tokens"] = stats.prompt_tokens;
    json["prompt_seconds"] = stats.prompt_seconds;
    json["tokens"] = stats.tokens;
    json["seconds"] = stats.seconds;
    return json.dump() + "\n";
  }

  static Json Probabilities(const WrittenText& written, const OpenedModel& model) {
    const TokenNames names(model.tokenizer.get());
    Json all = Json::array();
    for (size_t i = 0; i < written.ids.size(); ++i) {
      Json token = names.AsJson(written.ids[i]);
      token["log_probability"] = written.probabilities[i].log_probability;
      token["likeliest"] = Json::array();
      for (const TokenProbability& one : written.probabilities[i].likeliest) {
        Json other = names.AsJson(one.id);
        other["log_probability"] = one.log_probability;
        token["likeliest"].push_back(std::move(other));
      }
      all.push_back(std::move(token));
    }
    return all;
  }

  static std::string Speed(int64_t tokens, double seconds) {
    return fmt::format("{} tokens in {} ({} tokens/s)", WithCommas(tokens), HumanSeconds(seconds),
                       HumanCount(static_cast<double>(tokens) / seconds));
  }

  // Of all texts, at the end: the first token of each is the prompt's.
  void NoteSpeed(Console& console) const {
    if (total_.tokens > 0 && !console.json()) console.Note(Speed(total_.tokens, total_.seconds));
  }

  void NoteStats(Console& console, const GenerateStats& stats, int64_t n_positions) {
    if (stats.dropped > 0) {
      console.Note(fmt::format("the prompt is cut: the model sees the last {} of its {} tokens",
                               WithCommas(stats.prompt_tokens),
                               WithCommas(stats.prompt_tokens + stats.dropped)));
    }
    if (stats.slides > 0 && !std::exchange(told_of_sliding_, true)) {
      console.Note(fmt::format(
          "the context is full at {} tokens: the oldest {} are forgotten and the other {} read "
          "again, {} for every {} tokens (--stride, --when-full stop)",
          WithCommas(n_positions), WithCommas(stats.stride), WithCommas(n_positions - stats.stride),
          HumanSeconds(stats.slide_seconds / static_cast<double>(stats.slides)),
          WithCommas(stats.stride)));
    }
    if (console.verbosity() < 1 || stats.prompt_seconds == 0) return;
    std::string note = "prompt: " + Speed(stats.prompt_tokens, stats.prompt_seconds);
    if (stats.tokens > 0) note += "; generation: " + Speed(stats.tokens, stats.seconds);
    console.Note(note);
  }

  std::string model_, tokenizer_, backend_ = "cpu", dtype_ = "auto", when_full_ = "slide";
  LoadFlag load_;
  PromptFlags prompts_;
  SamplingFlags sampling_;
  int64_t max_tokens_ = 256, n_ = 1;
  std::vector<std::string> stops_;
  std::optional<int64_t> stride_, likeliest_;
  ComputeFlags compute_;
  bool truncate_ = false, interactive_ = false, told_of_sliding_ = false;
  GenerateStats total_;
};

}  // namespace

std::unique_ptr<Command> NewGenerateCommand() {
  return std::make_unique<GenerateCommand>();
}

}  // namespace folio
