#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace folio {

// What stands before the next token.
struct TextSoFar {
  std::span<const int32_t> tokens = {};  // the prompt, and what was written after it
  size_t prompt_tokens = 0;              // how many of them are the prompt's

  std::span<const int32_t> written() const { return tokens.subspan(prompt_tokens); }
};

struct LogitBias {
  int32_t id = 0;
  double value = 0;
};

// What changes logits before a token is chosen by them, in this order:
//   bias             is added to the logits of its tokens
//   repetition       divides the logits above 0 of tokens in prompt or text and multiplies the
//   others
//                    (N. S. Keskar et al., arXiv:1909.05858, with the sign as in transformers)
//   presence,        taken off the logits of tokens of the text alone: presence once, frequency as
//   frequency        often as the token is there (as OpenAI's)
//   no_repeat_ngram  tokens that would end a sequence of so many that prompt or text have already
//   min_tokens       the ends of a text before so many tokens of it
// The last two make a token impossible.
struct PenaltyOptions {
  std::vector<LogitBias> bias = {};
  double repetition = 1;        // > 0; 1 for none
  double presence = 0;          // 0 for none
  double frequency = 0;         // 0 for none
  int64_t no_repeat_ngram = 0;  // >= 0; 0 for none
  int64_t min_tokens = 0;       // >= 0
};

class Penalties {
 public:
  // `ends`: the tokens that end a text.
  explicit Penalties(PenaltyOptions options, std::vector<int32_t> ends = {});

  // The changed logits: `logits` itself where nothing changes, else valid until the next call. They
  // depend on the arguments and options alone, and take time for each token of the text.
  // REQUIRES: every id is that of a logit.
  std::span<const float> Apply(std::span<const float> logits, const TextSoFar& text);

 private:
  void PenaliseRepetition(const TextSoFar& text);
  void BanRepeatedNgrams(std::span<const int32_t> tokens);
  float& At(int32_t id);

  PenaltyOptions options_;
  std::vector<int32_t> ends_;
  std::vector<float> changed_;
  std::vector<int32_t> counts_;  // by id: times written, -1 in the prompt alone; 0 between calls
  std::vector<int32_t> found_;
};

}  // namespace folio
