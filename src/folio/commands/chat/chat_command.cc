#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/cli/program.h"
#include "folio/commands/chat/conversation.h"
#include "folio/commands/chat/line_editor.h"
#include "folio/commands/commands.h"
#include "folio/commands/generate/writing.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/default_sampling.h"
#include "folio/inspect/token_names.h"
#include "folio/io/byte_input.h"
#include "folio/report/report.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// The tokens of a reply coloured by the model's own probability of each, in lines as wide as the
// terminal; then their number and their perplexity. REQUIRES: it was written with
// log-probabilities.
std::string ReplyTokens(const GeneratedText& written, const OpenedModel& model,
                        const Terminal& terminal) {
  FOLIO_CHECK(written.probabilities.size() == written.ids.size(), "of each token");
  const TokenNames names(model.tokenizer.get());
  std::string text;
  int64_t column = 0;
  double surprise = 0;
  for (size_t i = 0; i < written.ids.size(); ++i) {
    const double log_probability = written.probabilities[i].log_probability;
    const double probability = std::exp(log_probability);
    surprise -= log_probability;
    const std::string shown = Spelled(terminal, names.Shown(written.ids[i]));
    const std::string percent = PercentText(probability);
    const int64_t width = DisplayWidth(shown) + 1 + DisplayWidth(percent);
    if (column > 0 && column + 2 + width > terminal.width) {
      text += '\n';
      column = 0;
    }
    if (column > 0) text += "  ";
    column += (column > 0 ? 2 : 0) + width;
    text += Heated(terminal, probability, shown) + " " + Styled(terminal, Style::kDim, percent);
  }
  if (column > 0) text += '\n';
  const size_t count = written.ids.size();
  text += fmt::format("{} tokens", count);
  if (count > 0) {
    text += fmt::format(", perplexity {:.2f}", std::exp(surprise / static_cast<double>(count)));
  }
  return text + "\n";
}

class ChatCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "chat",
            .summary = "chat with a model in the terminal",
            .group = "model",
            .details =
                "A model trained on conversations answers what you type. Any other model continues "
                "the text, and what you type becomes part of it (Enter alone: a little more text). "
                "When the conversation exceeds the context, its oldest turns are dropped.\n\nWhere "
                "no flag says how tokens are chosen, the model's generation_config.json does (or "
                "general.sampling.* of a GGUF file); where that says nothing, answers have "
                "temperature 0.3, top-k 40, top-p 0.9 and min-p 0.05, and texts temperature "
                "1.\n\n/help lists the commands: sampling options, another reply, the probability "
                "of each token. Alt-Enter, or a backslash before Enter, inserts a line break. "
                "Ctrl-C ends the reply, Ctrl-D the conversation. The input history is stored in "
                "$XDG_STATE_HOME/folio/history (~/.local/state), for the arrow keys. Programs "
                "should use folio generate --chat --interactive or folio serve.",
            .examples = {"folio chat runs/answers",
                         "folio chat runs/answers --temperature 0.7 --top-p 0.9",
                         "folio chat gpt2 --max-tokens 60 --seed 1"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    model_.AddDecoding(flags);
    flags.Value(Field{"system", &system_, "system message of the conversation"});
    flags.Value(MaxTokens());
    model_.AddCache(flags);
    model_.AddCompute(flags);
    sampling_.Add(flags);
  }

  int Run(const Context& context) override {
    Console& console = context.console;
    if (!InputIsTerminal() || !console.out().is_terminal || console.json()) {
      throw UsageError("folio chat needs a terminal", "it is interactive",
                       "in programs use folio generate --interactive, with --chat for answers");
    }
    CatchSignals();
    model_.on_stop = OnStop::kEndsButInterrupt;
    const OpenedModel model = model_.Open(console);
    Dialogue dialogue(model, model_.cache());
    if (!system_.empty()) dialogue.SetSystem(system_);
    const Writing writing = dialogue.answers() ? Writing::kAnswer : Writing::kText;
    sampling_.UseDefaults(model, writing, console);
    if (!max_tokens_) max_tokens_ = DefaultGeneration(model, writing).max_tokens;
    [[maybe_unused]] const GenerateOptions checked = Options(model, console);
    console.Note(dialogue.answers() ? "The model answers. /help lists the commands, Ctrl-D ends."
                                    : "This model was not trained to answer: it continues the "
                                      "text.\n/help lists the commands, Ctrl-D ends.");
    Converse(console, model, dialogue);
    return StopRequested() != 0 ? SignalExitStatus(StopRequested()) : 0;
  }

 private:
  Field MaxTokens() {
    return {"max-tokens", &max_tokens_,
            "maximum number of tokens in a reply; 512 if not given, 256 for a text", 0, 1e12};
  }
  // Returns the fields that /set sets.
  std::vector<Field> Settings() {
    std::vector<Field> fields = sampling_.Fields();
    fields.push_back(MaxTokens());
    return fields;
  }

  GenerateOptions Options(const OpenedModel& model, Console& console) {
    return {.sampling = sampling_.Options(model.weights->config().vocab_size, console),
            .max_tokens = *max_tokens_};
  }

  void Converse(Console& console, const OpenedModel& model, Dialogue& dialogue) {
    ChatHistory history(ChatHistoryPath());
    const auto read = OpenLineEditor(
        console.out().color, history.earlier(),
        [this](std::string_view begun) { return CompleteChatLine(Settings(), begun); });
    while (StopRequested() == 0) {
      const std::optional<std::string> typed = read();
      if (!typed) return;
      history.Add(*typed);
      try {
        const ChatLine line = ParseChatLine(*typed);
        if (line.word == ChatWord::kQuit) return;
        Obey(console, model, dialogue, line);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kInput) throw;
        ReportError(console, error);
      }
    }
  }

  void Obey(Console& console, const OpenedModel& model, Dialogue& dialogue, const ChatLine& line) {
    switch (line.word) {
      case ChatWord::kMessage:
        if (dialogue.answers() && line.text.empty()) return;
        return Tell(console, model, dialogue, [&](const auto& options, const auto& on_text) {
          return dialogue.Say(line.text, options, on_text);
        });
      case ChatWord::kSystem:
        dialogue.SetSystem(line.text);
        return console.Note(line.text.empty() ? "(no system message)"
                                              : "(used from the next answer on)");
      case ChatWord::kRetry:
        return Retry(console, model, dialogue);
      case ChatWord::kSet:
        if (line.arguments.empty()) return ShowSettings(console);
        return SetByKey(Settings(), line.arguments[0], line.arguments[1]);
      case ChatWord::kSeed:
        return SetByKey(Settings(), "seed", line.arguments[0]);
      case ChatWord::kTokens:
        if (!dialogue.replied()) throw UsageError("there is no reply yet");
        return console.Result(ReplyTokens(last_, model, console.out()));
      case ChatWord::kNew:
        dialogue.Begin();
        return console.Note("(conversation cleared)");
      case ChatWord::kHelp:
        return console.Result(ChatHelp());
      case ChatWord::kQuit:
        return;
    }
  }

  void Retry(Console& console, const OpenedModel& model, Dialogue& dialogue) {
    if (!dialogue.replied()) throw UsageError("there is no reply yet");
    const SamplingOptions now = sampling_.Options(model.weights->config().vocab_size, console);
    if (now.temperature == 0) {
      throw UsageError("the reply would be the same",
                       "at temperature 0 the likeliest token is always chosen",
                       "/set temperature 0.8");
    }
    SetByKey(Settings(), "seed", std::to_string(now.seed + 1));
    console.Note(fmt::format("seed {}", now.seed + 1));
    Tell(console, model, dialogue, [&](const auto& options, const auto& on_text) {
      return dialogue.Again(options, on_text);
    });
  }

  // Shows a reply while `write` writes it.
  template <class Write>
  void Tell(Console& console, const OpenedModel& model, Dialogue& dialogue, const Write& write) {
    const TypedUnseen unseen;
    Dialogue::Reply reply = write(Options(model, console), [&](std::string_view more) {
      console.Result(more);
      return StopRequested() == 0;
    });
    const bool interrupted = TakeInterrupt();
    console.Result("\n");
    if (interrupted) console.Note("(stopped)");
    if (reply.forgotten > 0 && !std::exchange(told_of_forgetting_, true)) {
      console.Note(fmt::format(
          "(the context is full: from now on {} dropped)",
          dialogue.answers() ? "the oldest turns are" : "the beginning of the text is"));
    }
    if (!dialogue.answers() && reply.written.reason == FinishReason::kStop) {
      console.Note("(end of text; the next line starts a new one)");
    }
    if (console.verbosity() > 0 && !reply.written.ids.empty()) {
      console.Note(Speed(std::ssize(reply.written.ids), reply.stats));
    }
    last_ = std::move(reply.written);
  }

  void ShowSettings(Console& console) {
    std::string text;
    for (const Field& field : Settings()) {
      text += fmt::format("{}  {}  {}\n", PadRight(field.key, 18), PadRight(FieldText(field), 10),
                          field.help);
    }
    console.Result(text);
  }

  ModelFlags model_;
  SamplingFlags sampling_;
  std::string system_;
  std::optional<int64_t> max_tokens_;
  bool told_of_forgetting_ = false;
  GeneratedText last_;
};

}  // namespace

CommandList ChatCommands() {
  return CommandsOf<ChatCommand>();
}

}  // namespace folio
