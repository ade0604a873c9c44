#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/commands/commands.h"
#include "folio/commands/generate/writing.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/beam_search.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/default_sampling.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/speculation.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/byte_input.h"
#include "folio/io/json.h"
#include "folio/term/console.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"

namespace folio {
namespace {

// Returns the model's format of conversations. Throws a kInput Error if it has none.
ChatEncoder RequireChat(const OpenedModel& model) {
  model.RequireTokenizer();
  if (std::optional<ChatEncoder> chat = model.FindChat()) return *std::move(chat);
  throw InputError(fmt::format("{}: the model has no chat template", model.path.string()),
                   model.WhyNoChat(),
                   "remove --chat, give a template with --chat-template NAME|FILE, or train the "
                   "model on conversations: folio train --init MODEL --data CHATS.jsonl");
}

// Drops the line break at the end of a file, so that the text continues there.
std::string WithoutLastBreak(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::string OfJsonLine(std::string_view line, int64_t number, const std::string& name) {
  const Json json = ParseJson(line, name, number);
  const Json* prompt = json.is_object() ? json.find("prompt") : nullptr;
  if (prompt == nullptr || !prompt->is_string()) {
    throw InputError(fmt::format("{}:{}: no prompt", name, number), "there is no string \"prompt\"",
                     "each line must be {\"prompt\":\"...\"}");
  }
  return prompt->text();
}

std::string TextOfIds(const OpenedModel& model, const std::vector<int32_t>& ids) {
  return model.tokenizer != nullptr ? TextOf(*model.tokenizer, ids)
                                    : fmt::format("{}", fmt::join(ids, " "));
}

// The sources of prompts: --prompt, --file and --ids (each may be repeated), --prompts, and one
// TEXT without a flag.
struct PromptFlags {
  std::vector<std::string> texts, files, ids, lists;
  std::string positional, system;
  bool chat = false;  // texts are messages to answer

  void Add(Flags& flags) {
    flags.Positional(Field{"TEXT", &positional, "the prompt; - for standard input"});
    flags.List("-p,--prompt", &texts, "the prompt; empty: the model begins",
               {.placeholder = "TEXT", .meant = " "});
    flags.List("--file", &files, "a file with the prompt; - for standard input",
               {.placeholder = "FILE"});
    flags.List("--ids", &ids, "the prompt as token ids: 464,2068", {.placeholder = "IDS"});
    flags.List("--prompts", &lists,
               "a file with one prompt per line, plain or as {\"prompt\":...}; each is continued "
               "separately",
               {.placeholder = "FILE"});
    flags.Switch("--chat", &chat,
                 "treat prompts as messages, and answer them; for models trained on conversations");
    flags.Value(Field{"system", &system, "with --chat: the system message"});
  }
  // Returns true if there is a prompt other than standard input.
  bool given() const {
    return !(texts.empty() && files.empty() && ids.empty() && lists.empty() && positional.empty());
  }

  // All prompts in this order: --prompt, TEXT, --file, --ids, --prompts. If there is none, a prompt
  // from a pipe or file on standard input, else the model's own beginning. Throws a kInput Error if
  // something cannot be read or encoded or is no token of the model, and for text if the model has
  // no tokenizer.
  std::vector<Prompt> Read(const OpenedModel& model) const {
    std::vector<Prompt> prompts;
    for (const std::string& text : texts) prompts.push_back(OfText(model, text, "prompt"));
    if (positional == "-") {
      prompts.push_back(OfFile(model, "-"));
    } else if (!positional.empty()) {
      prompts.push_back(OfText(model, positional, "prompt"));
    }
    for (const std::string& file : files) prompts.push_back(OfFile(model, file));
    for (const std::string& list : ids) {
      std::vector<int32_t> some = ParseIds(list, "--ids", model.weights->config().vocab_size);
      if (some.empty()) {
        throw InputError("--ids: no token ids", {}, "separate numbers with commas: 464,2068");
      }
      prompts.push_back({TextOfIds(model, some), std::move(some)});
    }
    for (const std::string& file : lists) AddList(model, file, prompts);
    if (!prompts.empty()) return prompts;
    return {InputIsPiped() ? OfFile(model, "-") : OfText(model, "", "prompt")};
  }

  // A text to continue, or with --chat to answer.
  Prompt OfText(const OpenedModel& model, std::string text, const std::string& where) const {
    if (!chat) {
      const Tokenizer& tokenizer = model.RequireTokenizer(
          ", give one with --tokenizer NAME|DIR, or give tokens as ids: --ids 5,0,12");
      std::vector<int32_t> tokens = PromptTokens(tokenizer, text, where);
      return {std::move(text), std::move(tokens)};
    }
    const ChatEncoder encoder = RequireChat(model);
    Prompt prompt{text + "\n", {}};
    Conversation asked{.messages = {{ChatRole::kUser, std::move(text)}}};
    if (!system.empty()) asked.messages.insert(asked.messages.begin(), {ChatRole::kSystem, system});
    encoder.Encode(*model.tokenizer, asked, /*ask=*/true, where, prompt.ids);
    return prompt;
  }

 private:
  Prompt OfFile(const OpenedModel& model, const std::string& file) const {
    ByteInput input(file);
    const std::string name = input.name();
    return OfText(model, WithoutLastBreak(ReadAll(std::move(input))), name);
  }

  // A prompt for each line that is not empty.
  void AddList(const OpenedModel& model, const std::string& file,
               std::vector<Prompt>& prompts) const {
    ByteInput input(file);
    const std::string name = input.name(), text = ReadAll(std::move(input));
    const bool json = file.ends_with(".jsonl") || text.starts_with("{\"prompt\"");
    const size_t before = prompts.size();
    int64_t number = 0;
    for (const std::string& whole : Split(text, '\n')) {
      ++number;
      const std::string line = WithoutLastBreak(whole);
      if (line.empty()) continue;
      prompts.push_back(OfText(model, json ? OfJsonLine(line, number, name) : line,
                               fmt::format("{}:{}", name, number)));
    }
    if (prompts.size() > before) return;
    throw InputError(fmt::format("{}: no prompts", name), {},
                     "write one per line, or {\"prompt\":\"...\"} in each line");
  }
};

// Reads lines of standard input one at a time, without waiting for more.
class LineInput {
 public:
  // The next line that is not empty, without its line break; nothing at the end. Throws a kInput
  // Error for a line beyond 1 MiB, and Stopped.
  std::optional<std::string> Next() {
    while (Fill()) {
      const size_t end = std::min(held_.find('\n'), held_.size());
      std::string line = held_.substr(0, end);
      held_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) return line;
    }
    return std::nullopt;
  }

 private:
  // Waits until `held_` begins with a complete line; at the end of input the rest is one. Returns
  // false if there is none.
  bool Fill() {
    constexpr size_t kLongestLine = size_t{1} << 20;
    while (held_.find('\n') == held_.npos && !ended_) {
      ended_ = input_.Read(held_, 4096) == 0;
      if (held_.size() > kLongestLine) {
        throw InputError("standard input: a line is longer than 1 MiB", {},
                         "give a long prompt in a file: --file FILE");
      }
    }
    return !held_.empty();
  }

  ByteInput input_{"-"};
  std::string held_;
  bool ended_ = false;
};

// Continues prompts one after the other by beam search, and prints the texts as text or as lines of
// JSON. `max_tokens`, `n`, `beams` and `length_penalty` are taken from `options`. Throws what
// BeamSearch throws.
void TellBeams(Console& console, const OpenedModel& model, const std::vector<Prompt>& prompts,
               BeamSearchOptions options, std::optional<Dtype> cache) {
  const GptConfig& config = model.weights->config();
  const GenerateOptions ends = ForTokens(model, {});
  options.stop_tokens = ends.stop_tokens;
  options.usable = ends.usable;
  int64_t pages = 0;
  for (const Prompt& prompt : prompts) {
    pages = std::max(pages, BeamSearchPages(config, std::ssize(prompt.ids), options));
  }
  Decoder decoder(*model.backend, *model.weights, {.cache = cache, .pages = pages});
  for (size_t p = 0; p < prompts.size() && StopRequested() == 0; ++p) {
    const std::vector<BeamText> texts = BeamSearch(decoder, prompts[p].ids, options);
    for (size_t i = 0; i < texts.size(); ++i) {
      const BeamText& found = texts[i];
      const std::string text =
          (model.tokenizer || found.ids.empty() ? "" : " ") + TextOfIds(model, found.ids);
      if (!console.json()) {
        console.Bytes((p + i > 0 ? "\n" : "") + prompts[p].text + text + "\n");
        continue;
      }
      Json json = TextJson(model, prompts[p], p, static_cast<int64_t>(i), text, found.ids);
      json["finish_reason"] = found.finished ? "stop" : "length";
      json["score"] = found.score;
      json["log_probability"] = found.log_probability;
      console.Result(json.dump() + "\n");
    }
  }
}

class GenerateCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "generate",
        .summary = "generate text with a trained model",
        .group = "model",
        .details =
            "Prints the prompt and its continuation while it is written. For a run, the best "
            "checkpoint is used. The same seed gives the same text, alone or together with others. "
            "The prompt can be given with or without --prompt, in a file (its last line break is "
            "removed) or on standard input. Several texts are written at once and printed one "
            "after the other. A model without a tokenizer takes --ids and prints ids, unless "
            "--tokenizer is given. With --chat the model answers the prompt as a message; with "
            "--interactive too it answers each line of standard input in one conversation. For "
            "conversations in the terminal use folio chat.\n\nBiases, penalties and bans change "
            "the logits first. The other options are applied next, in the order in which they are "
            "listed. What no flag says is as the model's generation_config.json says (or "
            "general.sampling.* of a GGUF file); where that says nothing, texts have temperature 1 "
            "and no cuts, and answers temperature 0.3, top-k 40, top-p 0.9 and min-p 0.05.",
        .examples = {"folio generate runs/demo --prompt \"Once upon a time\"",
                     "folio generate runs/demo --greedy --max-tokens 50",
                     "folio generate runs/demo --n 3 --seed 7 --json",
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
    flags.Value(Field{"max-tokens", &max_tokens_,
                      "tokens to add at most; 256 if not given, 512 with --chat", 0, 1e12});
    flags.Value(Field{"n", &n_, "texts to write for each prompt", 1, 1e6}.WithFlag("-n,--n"));
    flags.Value(Field{"batch", &batch_, "number of texts to write at the same time", 1, 1e4});
    model_.AddCache(flags);
    flags.List("--stop", &stops_, "end the text before this string; may be repeated",
               {.placeholder = "TEXT"});
    flags.Value(
        Field{"when-full", &when_full_, "when the context is full: drop the oldest tokens, or stop"}
            .Choices({"slide", "stop"}));
    flags.Value(Field{"stride", &stride_, "number of tokens to drop; default: half the context"});
    flags.Switch("--truncate", &truncate_,
                 "use the end of a prompt that is longer than the context");
    flags.Switch("--interactive", &interactive_,
                 "continue each line of input, or with --chat answer it");
    flags.Value(Field{"probabilities", &likeliest_,
                      "with --json: the probability of each token and of the N likeliest", 0, 1e6});
    flags.Value(Field{"draft", &draft_,
                      "speculative decoding, used where it is faster: guess from repetitions in "
                      "the text (ngram), or with a smaller model"},
                {.placeholder = "ngram|MODEL"});
    flags.Value(Field{"beams", &beams_,
                      "beam search with this many beams; prints the --n likeliest texts", 1,
                      Decoder::kFewRows});
    flags.Value(Field{"length-penalty", &length_penalty_,
                      "beam search divides ln p of a text by its length to this power", -10, 10});
    model_.AddCompute(flags);
    sampling_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    Console& console = context.console;
    CheckFlags(console);
    const OpenedModel model = model_.Open(console);
    const Writing writing = prompts_.chat ? Writing::kAnswer : Writing::kText;
    if (prompts_.chat) RequireChat(model);
    if (!max_tokens_) max_tokens_ = DefaultGeneration(model, writing).max_tokens;
    if (beams_) {
      TellBeams(console, model, prompts_.Read(model),
                {.beams = *beams_,
                 .length_penalty = length_penalty_,
                 .max_tokens = *max_tokens_,
                 .n = n_},
                model_.cache());
    } else {
      sampling_.UseDefaults(model, writing, console);
      OpenDraft(console, model);
      interactive_ ? Converse(console, model) : ContinueAll(console, model);
    }
    return StopRequested() != 0 ? SignalExitStatus(StopRequested()) : 0;
  }

 private:
  void CheckFlags(const Console& console) {
    if (interactive_ && InputIsTerminal()) {
      throw UsageError("--interactive is for programs: standard input is a terminal",
                       "it has no prompt and no line editing",
                       "use folio chat, or give lines: folio generate --interactive < FILE");
    }
    RefuseTogether(interactive_ && prompts_.given(), "--interactive", "a prompt");
    RefuseTogether(interactive_ && n_ > 1, "--interactive", "--n");
    RefuseTogether(beams_ && interactive_, "--beams", "--interactive");
    RefuseTogether(beams_ && !draft_.empty(), "--beams", "--draft");
    RefuseTogether(beams_ && !stops_.empty(), "--beams", "--stop");
    RefuseTogether(beams_ && likeliest_, "--beams", "--probabilities");
    RefuseTogether(beams_ && sampling_.given(), "--beams", "how a token is chosen");
    if (beams_ && n_ > *beams_) {
      throw UsageError(fmt::format("{} beams cannot give {} texts", *beams_, n_),
                       "--n is the number of texts to print, at most one per beam",
                       fmt::format("--beams {}, or fewer texts", n_));
    }
    if (!prompts_.system.empty() && !prompts_.chat) {
      throw UsageError("--system needs --chat", "a system message is part of a conversation",
                       "add --chat, or put the text into the prompt");
    }
    [[maybe_unused]] const StopStrings throws{stops_};
    if (likeliest_ && !console.json()) {
      throw UsageError("--probabilities needs --json", "plain output cannot show them",
                       "add --json, or see folio inspect probabilities");
    }
  }

  GenerateOptions Options(const OpenedModel& model, Console& console) {
    const GptConfig& config = model.weights->config();
    if (!stops_.empty()) model.RequireTokenizer(", or remove --stop");
    return {.sampling = sampling_.Options(config.vocab_size, console),
            .max_tokens = *max_tokens_,
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
  // A draft model supports one text at a time.
  int64_t AtOnce() const { return draft_.empty() ? batch_ : 1; }

  void OpenDraft(Console& console, const OpenedModel& model) {
    if (draft_.empty()) return;
    if (draft_ == "ngram") {
      guesser_ = std::make_unique<NgramDraft>();
      return;
    }
    draft_model_ = model_.Open(console, draft_, "");
    guesser_ = std::make_unique<ModelDraft>(*draft_model_.backend, *draft_model_.weights,
                                            model.weights->config().vocab_size);
  }

  static void Check(const OpenedModel& model, const TextTeller& teller, const Prompt& prompt,
                    const std::string& name) {
    const GptConfig& config = model.weights->config();
    CheckGeneration(prompt.ids, teller.for_tokens(), config.n_positions, config.vocab_size, name);
  }

  // All prompts, several texts at a time.
  void ContinueAll(Console& console, const OpenedModel& model) {
    const std::vector<Prompt> prompts = prompts_.Read(model);
    const int64_t total = std::ssize(prompts) * n_;
    DecodeBatch batch = MakeBatch(model, total);
    TextTeller teller(console, model, Options(model, console), guesser_.get());
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
            batch.Add(teller.Begin(prompt, static_cast<size_t>(p), i, static_cast<uint64_t>(i),
                                   (next > 0 ? "\n" : "") + prompt.text)));
      }
      more = batch.Step() || std::ssize(ids) < total;
    }
    for (const DecodeBatch::Id id : ids) batch.Cancel(id);
    if (console.json() || teller.tokens() == 0) return;
    console.Note(total > 1 ? Speed(teller.tokens(), SteadySeconds() - begin)
                           : Speed(teller.tokens(), teller.stats()));
  }

  // Reads lines of standard input: continues each, or treats them all as one conversation.
  void Converse(Console& console, const OpenedModel& model) {
    DecodeBatch batch = MakeBatch(model, 1);
    TextTeller teller(console, model, Options(model, console), guesser_.get());
    std::optional<ChatSession> session;
    if (prompts_.chat) {
      session.emplace(*model.tokenizer, RequireChat(model), model.weights->config().n_positions);
      session->SetSystem(prompts_.system);
    }
    LineInput lines;
    bool told_of_forgetting = false;
    for (uint64_t turn = 0; StopRequested() == 0; ++turn) {
      const std::optional<std::string> line = lines.Next();
      if (!line) return;
      Prompt prompt{*line, {}};
      if (session) {
        ChatSession::Question question = session->Ask(*line, *max_tokens_);
        if (question.forgotten > 0 && !std::exchange(told_of_forgetting, true)) {
          console.Note(
              "the conversation exceeds the context: from now on its oldest turns are dropped");
        }
        prompt.ids = std::move(question.ids);
      } else {
        prompt = prompts_.OfText(model, *line, "line");
      }
      Check(model, teller, prompt, "the prompt");
      batch.Add(teller.Begin(prompt, turn, 0, session ? turn : 0, session ? "" : prompt.text));
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
  std::optional<int64_t> max_tokens_;
  int64_t n_ = 1, batch_ = 8;
  std::vector<std::string> stops_;
  std::optional<int64_t> stride_, likeliest_;
  bool truncate_ = false, interactive_ = false;
};

}  // namespace

CommandList GenerateCommands() {
  return CommandsOf<GenerateCommand>();
}

}  // namespace folio
