#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/cli/command_line.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/default_sampling.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/sampler.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/term/console.h"

namespace folio {

// SamplingFlags say how the next token is chosen (infer/sampler.h).
class SamplingFlags {
 public:
  // `flags` must outlive it.
  void Add(Flags& flags);
  // What no flag says is as the model has it (infer/default_sampling.h), which the console is told
  // where any of it counts.
  void UseDefaults(const OpenedModel& model, Writing writing, Console& console);
  // Returns the fields of one value, by the names of their flags, for who changes them later.
  std::vector<Field> Fields();
  // Returns the options for a model of V tokens. Draws a seed where none is given, and says which.
  // Throws a kUsage or kInput Error for what does not fit the flag or the model.
  SamplingOptions Options(int64_t V, Console& console);
  // Returns true where any of the flags is given.
  bool given();

 private:
  std::vector<LogitBias> Biases() const;
  bool IsGiven(const Field& field) const;

  Flags* flags_ = nullptr;
  SamplingOptions options_;  // without what the next lines say
  std::vector<std::string> biases_, banned_, forced_;
  std::optional<int64_t> seed_;
  bool greedy_ = false;
};

// A Prompt is the beginning of a text to continue, or with --chat the question.
struct Prompt {
  std::string text;          // as it is shown: without a tokenizer the ids
  std::vector<int32_t> ids;  // at least one
};

// Tells what a DecodeBatch writes, as text or as lines of JSON, in the order in which the texts
// were begun: of the first that is not finished as it comes, of the others when it is their turn.
// Where texts are cancelled, only the first is shown.
class TextTeller {
 public:
  // `console`, `model` and `draft`, which guesses for its requests or is null, must outlive it.
  TextTeller(Console& console, const OpenedModel& model, const GenerateOptions& options,
             Draft* draft);

  // Returns the options that requests are made with.
  const GenerateOptions& for_tokens() const { return for_tokens_; }

  // A request that tells of itself; must not outlive this. `p` is the prompt's number, `i` that of
  // the text among those of the prompt. `shown` is what stands before it, but not in JSON.
  TextRequest Begin(const Prompt& prompt, size_t p, int64_t i, uint64_t rng_stream,
                    std::string_view shown);

  const GeneratedText& last() const { return last_; }    // that has ended
  int64_t tokens() const { return tokens_; }             // of all texts that have ended
  const GenerateStats& stats() const { return stats_; }  // of the last

 private:
  struct Text {
    Prompt prompt;
    size_t p;
    int64_t i;
    std::unique_ptr<TextStreamer> writer = {};  // null without a tokenizer
    GeneratedText written = {};                 // then
    std::string held = {};
    bool finished = false;
  };

  // More of a text.
  void Show(Text& text, std::string_view more);
  void Write(std::string_view text);  // to the console
  bool Take(Text& text, const NewToken& token);
  void End(Text& text, FinishReason reason, const GenerateStats& stats);
  std::string Line(const Text& text) const;
  void NoteStats(const GenerateStats& stats, int64_t tokens);

  Console& console_;
  const OpenedModel& model_;
  GenerateOptions options_, for_tokens_;
  Draft* draft_;
  std::list<Text> texts_;  // that are not told to the end
  bool cancelled_ = false, told_of_sliding_ = false;
  int64_t tokens_ = 0;
  GeneratedText last_;
  GenerateStats stats_;
};

// What a line of JSON says first: of text `i` of those of the prompt with number `p`.
Json TextJson(const OpenedModel& model, const Prompt& prompt, size_t p, int64_t i,
              const std::string& text, const std::vector<int32_t>& ids);

// "100 tokens in 1.2 s (83 tokens/s)"
std::string Speed(int64_t tokens, double seconds);
// The same of one text of so many tokens. The time is that behind the first token, which the prompt
// gives, and so is the speed.
std::string Speed(int64_t tokens, const GenerateStats& stats);

}  // namespace folio
