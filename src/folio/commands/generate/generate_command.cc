#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/generate/beams.h"
#include "folio/commands/generate/line_input.h"
#include "folio/commands/generate/prompts.h"
#include "folio/commands/generate/sampling_flags.h"
#include "folio/commands/generate/text_teller.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/speculation.h"
#include "folio/infer/text_streamer.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class GenerateCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "generate",
        .summary = "write text with a trained model",
        .group = "model",
        .details =
            "Prints the prompt and what the model adds to it, as it comes. A run directory\n"
            "stands for its best checkpoint. The same seed gives the same text, alone or\n"
            "among others. A prompt may be given with or without --prompt, in a file (its\n"
            "last line break is left out) or on standard input. Several texts are written\n"
            "at once and shown one after the other. A model without a tokenizer takes --ids and\n"
            "prints ids, or the text of --tokenizer. With --chat a model that was trained on\n"
            "conversations answers, with --interactive as well in a conversation of lines that\n"
            "come through a pipe; people type to folio chat.\n"
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
                     "folio generate --model runs/answers --chat --interactive < lines.txt",
                     "folio generate --model runs/bare --ids 464,2068"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    prompts_.Add(flags);
    model_.AddDecoding(flags);
    flags.Value(Field{"max-tokens", &max_tokens_, "tokens to add at most", 0, 1e12});
    flags.Value(Field{"n", &n_, "texts to write for each prompt", 1, 1e6}.WithFlag("-n,--n"));
    flags.Value(Field{"batch", &batch_, "of these, texts to write at once", 1, 1e4});
    model_.AddCache(flags);
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
    flags.Value(Field{"draft", &draft_,
                      "guess tokens and check several at once, where that is faster: by what the "
                      "text has already (ngram), or with a smaller model"},
                {.placeholder = "ngram|MODEL"});
    flags.Value(Field{"beams", &beams_,
                      "beam search: the --n likeliest texts that so many beams find", 1,
                      Decoder::kFewRows});
    flags.Value(Field{"length-penalty", &length_penalty_,
                      "of beam search: ln p of a text is divided by its length to this power", -10,
                      10});
    model_.AddCompute(flags);
    sampling_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    Console& console = context.console;
    CheckFlags(console);
    const OpenedModel model = model_.Open();
    if (beams_) {
      TellBeams(
          console, model, ReadPrompts(model, prompts_),
          {.beams = *beams_, .length_penalty = length_penalty_, .max_tokens = max_tokens_, .n = n_},
          model_.cache());
    } else {
      OpenDraft(model);
      interactive_ ? Converse(console, model) : ContinueAll(console, model);
    }
    return StopRequested() != 0 ? SignalExitStatus(StopRequested()) : 0;
  }

 private:
  void CheckFlags(const Console& console) const {
    if (interactive_ && InputIsTerminal()) {
      throw UsageError("--interactive is for programs: standard input is a terminal",
                       "nothing is asked for here, and no line edited",
                       "type to folio chat, or give lines: folio generate --interactive < FILE");
    }
    RefuseTogether(interactive_ && prompts_.given(), "--interactive", "a prompt");
    RefuseTogether(interactive_ && n_ > 1, "--interactive", "--n");
    RefuseTogether(beams_ && interactive_, "--beams", "--interactive");
    RefuseTogether(beams_ && !draft_.empty(), "--beams", "--draft");
    RefuseTogether(beams_ && !stops_.empty(), "--beams", "--stop");
    RefuseTogether(beams_ && likeliest_, "--beams", "--probabilities");
    RefuseTogether(beams_ && sampling_.given(), "--beams", "how a token is chosen");
    if (beams_ && n_ > *beams_) {
      throw UsageError(fmt::format("{} beams do not find {} texts", *beams_, n_),
                       "--n is how many of the texts that they find are wanted",
                       fmt::format("--beams {}, or fewer texts", n_));
    }
    [[maybe_unused]] const StopStrings throws{stops_};
    if (likeliest_ && !console.json()) {
      throw UsageError("--probabilities needs --json", "a text has no place for them",
                       "add --json, or see folio inspect probabilities");
    }
  }

  GenerateOptions Options(const OpenedModel& model, Console& console) {
    const GptConfig& config = model.weights->config();
    if (!stops_.empty()) model.RequireTokenizer(", or leave out --stop");
    return {.sampling = sampling_.Options(config.vocab_size, console),
            .max_tokens = max_tokens_,
            .stop_strings = stops_,
            .when_full = when_full_ == "stop" ? WhenFull::kStop : WhenFull::kSlide,
            .stride = stride_,
            .truncate = truncate_,
            .likeliest = likeliest_};
  }

  DecodeBatch MakeBatch(const OpenedModel& model, int64_t texts) const {
    return {*model.backend,
            *model.weights,
            {.texts = std::min(texts, AtOnce()), .cache = model_.cache()}};
  }
  // A draft guesses for one text at a time.
  int64_t AtOnce() const { return draft_.empty() ? batch_ : 1; }

  void OpenDraft(const OpenedModel& model) {
    if (draft_.empty()) return;
    if (draft_ == "ngram") {
      guesser_ = std::make_unique<NgramDraft>();
      return;
    }
    draft_model_ = model_.Open(draft_, "");
    guesser_ = std::make_unique<ModelDraft>(*draft_model_.backend, *draft_model_.weights,
                                            model.weights->config().vocab_size);
  }

  TextRequest Request(TextTeller& teller, const Prompt& prompt, size_t p, int64_t i,
                      uint64_t rng_stream, std::string_view shown) {
    TextRequest request = teller.Begin(prompt, p, i, rng_stream, shown);
    request.draft = guesser_.get();
    return request;
  }

  static void Check(const OpenedModel& model, const TextTeller& teller, const Prompt& prompt,
                    const std::string& name) {
    const GptConfig& config = model.weights->config();
    CheckGeneration(prompt.ids, teller.for_tokens(), config.n_positions, config.vocab_size, name);
  }

  // All prompts, several texts at a time.
  void ContinueAll(Console& console, const OpenedModel& model) {
    const std::vector<Prompt> prompts = ReadPrompts(model, prompts_);
    const int64_t total = std::ssize(prompts) * n_;
    DecodeBatch batch = MakeBatch(model, total);
    TextTeller teller(console, model, Options(model, console));
    for (size_t p = 0; p < prompts.size(); ++p) {
      Check(model, teller, prompts[p],
            prompts.size() == 1 ? "the prompt" : fmt::format("prompt {}", p + 1));
    }
    std::vector<DecodeBatch::Id> ids;
    const double begin = SteadySeconds();
    for (bool more = true; more && StopRequested() == 0;) {
      for (; std::ssize(ids) < total && batch.running() + batch.waiting() < AtOnce();) {
        const int64_t next = std::ssize(ids), p = next / n_, i = next % n_;
        const Prompt& prompt = prompts[static_cast<size_t>(p)];
        ids.push_back(
            batch.Add(Request(teller, prompt, static_cast<size_t>(p), i, static_cast<uint64_t>(i),
                              (next > 0 ? "\n" : "") + prompt.text)));
      }
      more = batch.Step() || std::ssize(ids) < total;
    }
    for (const DecodeBatch::Id id : ids) batch.Cancel(id);
    if (console.json() || teller.tokens() == 0) return;
    console.Note(total > 1 ? Speed(teller.tokens(), SteadySeconds() - begin)
                           : Speed(teller.tokens(), teller.stats()));
  }

  // Line after line of standard input: each continued by itself, or all of them a conversation.
  void Converse(Console& console, const OpenedModel& model) {
    DecodeBatch batch = MakeBatch(model, 1);
    TextTeller teller(console, model, Options(model, console));
    std::optional<ChatSession> session;
    if (prompts_.chat) {
      session.emplace(*model.tokenizer, RequireChat(model), model.weights->config().n_positions);
    }
    LineInput lines;
    bool told_of_forgetting = false;
    for (uint64_t turn = 0; StopRequested() == 0; ++turn) {
      const std::optional<std::string> line = lines.Next();
      if (!line) return;
      Prompt prompt{*line, {}};
      if (session) {
        ChatSession::Question question = session->Ask(*line, max_tokens_);
        if (question.forgotten > 0 && !std::exchange(told_of_forgetting, true)) {
          console.Note(
              "the conversation no longer fits the context: from now on its oldest turns are "
              "forgotten");
        }
        prompt.ids = std::move(question.ids);
      } else {
        prompt = PromptOf(model, *line, "line");
      }
      Check(model, teller, prompt, "the prompt");
      batch.Add(Request(teller, prompt, turn, 0, session ? turn : 0, session ? "" : prompt.text));
      while (batch.Step()) {
      }
      if (session) session->Answered(teller.last().ids);
    }
  }

  std::string draft_;
  OpenedModel draft_model_;
  std::unique_ptr<Draft> guesser_;
  std::optional<int64_t> beams_;
  double length_penalty_ = 1;
  ModelFlags model_;
  std::string when_full_ = "slide";
  PromptFlags prompts_;
  SamplingFlags sampling_;
  int64_t max_tokens_ = GenerateOptions{}.max_tokens, n_ = 1, batch_ = 8;
  std::vector<std::string> stops_;
  std::optional<int64_t> stride_, likeliest_;
  bool truncate_ = false, interactive_ = false;
};

}  // namespace

CommandList GenerateCommands() {
  return CommandsOf<GenerateCommand>();
}

}  // namespace folio
