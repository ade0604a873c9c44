#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/infer/decode_batch.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Finds the strings that end a text while it comes, wherever it is cut. The string that is whole
// first ends the text (of several that end at one place the longest), and what could still become
// one is held back, no longer: neither is ever given out. Does not depend on how the text is cut.
class StopStrings {
 public:
  // Throws a kUsage Error for an empty one, and for one that is not UTF-8.
  explicit StopStrings(std::vector<std::string> stops);

  // Returns what can be shown now that `text` has come, whole UTF-8 characters; "" once found().
  std::string Add(std::string_view text);
  // Returns what was held back, for a text that has ended otherwise.
  std::string Flush();
  bool found() const { return found_; }

 private:
  // Bytes at the end of `held_` that begin a string.
  size_t Beginning() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;  // bytes
  std::string held_;
  bool found_ = false;
};

class ChatEncoder;
class StreamingDecoder;
struct OpenedModel;

// The tokens that a text begins with: those that the tokenizer puts before each text, unless
// `prompt` begins with them, and those of `prompt`. If that is nothing, the end-of-text token or,
// where the tokenizer has none, a line break (else token 0). `where` is for errors.
std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, std::string_view prompt,
                                  std::string_view where = "prompt");

// Returns the text of tokens of a model: UTF-8, with U+FFFD for what is none and for a token that
// the tokenizer lacks (a model may have more).
std::string TextOf(const Tokenizer& tokenizer, std::span<const int32_t> ids);

// Returns by id which ids have a token: a model may have more, and a tokenizer has holes.
std::vector<bool> IdsWithTokens(const Tokenizer& tokenizer);

struct GeneratedText {
  std::string text;          // without the prompt
  std::vector<int32_t> ids;  // all that were chosen, those of a stop string too
  std::vector<ModelProbabilities> probabilities;  // of each, with GenerateOptions::likeliest
  FinishReason reason = FinishReason::kLength;
};

// Makes text of a model's tokens, and hands out what can be shown, as it comes: whole UTF-8
// characters only, and nothing that could still become a stop string. The end-of-text token ends a
// text, and so do the end of a turn (text/chat.h) and a stop string, which is not shown; none of
// them before min_tokens, whose text is not searched. Ids without a token are never chosen, nor are
// those that begin a turn: who asks does that.
class TextStreamer {
 public:
  // `on_text` returns false to stop. The tokenizer must outlive it.
  TextStreamer(const Tokenizer& tokenizer, const GenerateOptions& options,
               std::function<bool(std::string_view)> on_text);
  ~TextStreamer();

  // Takes a token, as TextRequest::on_token does.
  bool Take(const NewToken& token);
  // Takes the reason that on_end gives, and returns the text.
  GeneratedText Finish(FinishReason reason);

 private:
  bool Show(const std::string& text);

  const Tokenizer& tokenizer_;
  std::function<bool(std::string_view)> on_text_;
  int64_t min_tokens_;
  bool keep_probabilities_, wanted_ = true;
  StopStrings stops_;
  std::unique_ptr<StreamingDecoder> decoder_;
  GeneratedText written_;
};

// Returns `options` for the tokens of a model: a text also ends at the tokens that end texts or
// turns by its configuration, its tokenizer and how it sees conversations, each of the last two
// null for none, and only ids with a token are chosen.
GenerateOptions ForTokens(const GptConfig& config, const Tokenizer* tokenizer,
                          const ChatEncoder* chat, GenerateOptions options);
GenerateOptions ForTokens(const OpenedModel& model, GenerateOptions options);

// Generates one text, which ends as ForTokens says.
GeneratedText GenerateText(Generator& generator, const Tokenizer& tokenizer,
                           const std::vector<int32_t>& prompt, const GenerateOptions& options,
                           uint64_t rng_stream,
                           const std::function<bool(std::string_view)>& on_text,
                           const ChatEncoder* chat = nullptr);

}  // namespace folio
