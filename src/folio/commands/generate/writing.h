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

// Flags that choose how the next token is sampled (infer/sampler.h).
class SamplingFlags {
 public:
  // `flags` must outlive it.
  void Add(Flags& flags);
  // Takes the model's own defaults (infer/default_sampling.h) for flags that were not given, and
  // reports them on the console if they have an effect.
  void UseDefaults(const OpenedModel& model, Writing writing, Console& console);
  // Returns the single-valued fields by the names of their flags, for changing them later.
  std::vector<Field> Fields();
  // Returns the options for a model of V tokens. Draws a seed if none is given, and prints it.
  // Throws a kUsage or kInput Error for values that do not fit the flag or the model.
  SamplingOptions Options(int64_t V, Console& console);
  // Returns true if any of the flags is given.
  bool given();

 private:
  std::vector<LogitBias> Biases() const;
  bool IsGiven(const Field& field) const;

  Flags* flags_ = nullptr;
  SamplingOptions options_;  // without the members below
  std::vector<std::string> biases_, banned_, forced_;
  std::optional<int64_t> seed_;
  bool greedy_ = false;
};

// The beginning of a text to continue, or with --chat the question.
struct Prompt {
  std::string text;          // as shown: the ids if there is no tokenizer
  std::vector<int32_t> ids;  // at least one
};

// Prints the texts of a DecodeBatch, as text or as lines of JSON, in the order in which they were
// begun: the first unfinished one while it is written, the others in their turn. If texts are
// cancelled, only the first is shown.
class TextTeller {
 public:
  // `console`, `model` and `draft`, which guesses tokens or is null, must outlive it.
  TextTeller(Console& console, const OpenedModel& model, const GenerateOptions& options,
             Draft* draft);

  // Returns the options for requests.
  const GenerateOptions& for_tokens() const { return for_tokens_; }

  // A request that prints its text; must not outlive this object. `p` is the prompt's number, `i`
  // the text's number for this prompt. `shown` is printed before it, except in JSON.
  TextRequest Begin(const Prompt& prompt, size_t p, int64_t i, uint64_t rng_stream,
                    std::string_view shown);

  const GeneratedText& last() const { return last_; }    // the last text that has ended
  int64_t tokens() const { return tokens_; }             // of all texts that have ended
  const GenerateStats& stats() const { return stats_; }  // of the last

 private:
  struct Text {
    Prompt prompt;
    size_t p;
    int64_t i;
    std::unique_ptr<TextStreamer> writer = {};  // null without a tokenizer
    GeneratedText written = {};                 // set if `writer` is null
    std::string held = {};
    bool finished = false;
  };

  // Shows more of a text.
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
  std::list<Text> texts_;  // texts that are not completely printed
  bool cancelled_ = false, told_of_sliding_ = false;
  int64_t tokens_ = 0;
  GeneratedText last_;
  GenerateStats stats_;
};

// The first members of a JSON line: for text `i` of the prompt with number `p`.
Json TextJson(const OpenedModel& model, const Prompt& prompt, size_t p, int64_t i,
              const std::string& text, const std::vector<int32_t>& ids);

// "100 tokens in 1.2 s (83 tokens/s)"
std::string Speed(int64_t tokens, double seconds);
// The same for one text. Time and speed exclude the first token, which comes from the prompt.
std::string Speed(int64_t tokens, const GenerateStats& stats);

}  // namespace folio
