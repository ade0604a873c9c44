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

// Finds the strings that end a text that comes in pieces. The string that is complete first ends
// the text (the longest of those that end in the same place). Neither it nor what may still become
// such a string is returned. The result does not depend on the pieces.
class StopStrings {
 public:
  // Throws a kUsage Error for an empty string, and for one that is not UTF-8.
  explicit StopStrings(std::vector<std::string> stops);

  // Adds `text`, and returns the text that can be shown, whole UTF-8 characters; "" once found().
  std::string Add(std::string_view text);
  // Returns the text held back, for a text that has ended without a stop string.
  std::string Flush();
  bool found() const { return found_; }

 private:
  // The number of bytes at the end of `held_` with which a string begins.
  size_t Beginning() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;  // bytes
  std::string held_;
  bool found_ = false;
};

class ChatEncoder;
class StreamingDecoder;
struct OpenedModel;

// The tokens of a prompt: those that the tokenizer puts before each text, unless `prompt` begins
// with them, and those of `prompt`. If there are none, the end-of-text token or, if the tokenizer
// has none, a line break (else token 0). `where` is for errors.
std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, std::string_view prompt,
                                  std::string_view where = "prompt");

// Returns the text of tokens of a model: UTF-8, with U+FFFD for invalid bytes and for a token that
// the tokenizer lacks (a model may have more).
std::string TextOf(const Tokenizer& tokenizer, std::span<const int32_t> ids);

// Returns for each id true if it has a token: a model may have more ids, and a tokenizer has gaps.
std::vector<bool> IdsWithTokens(const Tokenizer& tokenizer);

struct GeneratedText {
  std::string text;          // without the prompt
  std::vector<int32_t> ids;  // all chosen tokens, including those of a stop string
  std::vector<ModelProbabilities> probabilities;  // of each, with GenerateOptions::likeliest
  FinishReason reason = FinishReason::kLength;
};

// Makes text of a model's tokens, and passes on what can be shown: whole UTF-8 characters, and
// nothing that could still become a stop string. The end-of-text token, the end of a turn
// (text/chat.h) and a stop string, which is not shown, end a text, but not before min_tokens, in
// whose text stop strings are not searched. Neither ids without a token are chosen nor those that
// begin a turn.
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
// turns by its configuration, tokenizer and chat encoder (null for none), and only ids with a token
// are chosen.
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
