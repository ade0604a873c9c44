#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/model/decoder.h"

namespace folio {

// Options of beam search (R. Reddy, 1977; for texts: A. Graves, arXiv:1211.3711), which keeps the
// `beams` likeliest beginnings of texts and continues each by one token per step.
struct BeamSearchOptions {
  int64_t beams = 4;  // 1 to Decoder::kFewRows
  // A text of n tokens, including its stop token, has the score
  //   (sum of their log-probabilities) / n^length_penalty
  // as in transformers: 0 compares sums, 1 means; more favours long texts, less than 0 short ones.
  // Y. Wu et al., arXiv:1609.08144, divide by ((5 + n) / 6)^alpha instead.
  double length_penalty = 1;              // finite
  int64_t max_tokens = 256;               // >= 0
  std::vector<int32_t> stop_tokens = {};  // each ends a text, of which it is no part
  std::vector<bool> usable = {};          // by id, which tokens may be chosen; empty for all
  int64_t n = 1;                          // number of texts to return, 1 to `beams`
};

struct BeamText {
  std::vector<int32_t> ids = {};
  double score = 0;
  double log_probability = 0;  // ln, of the tokens and the stop token
  bool finished = false;       // by a stop token
};

// The number of pages of a cache (DecoderOptions::pages) that such a search needs at most behind a
// prompt of so many tokens; beams share the pages that the prompt fills. Throws what BeamSearch
// throws for these arguments.
int64_t BeamSearchPages(const GptConfig& config, int64_t prompt_tokens,
                        const BeamSearchOptions& options);

// Searches for the texts with the highest scores behind a prompt, and returns the `n` best ones
// that it found, or fewer if there are fewer, best first. Log-probabilities are the model's own,
// over all of its vocabulary, in double. A text ends with a stop token, after max_tokens, or where
// the context of P tokens, all of which are kept, is full: behind T tokens it has at most P - T
// + 1.
//
// Each step sorts all continuations of the beams by a token: the likelier first, of equals that of
// the better beam, then the lower id. Among the first `beams`, those that end are finished texts;
// the first `beams` that do not end become the next beams. With one beam the search ends with the
// first finished text, as greedy search does. Of texts with equal scores the one found first is
// better.
//
// It ends early when `n` texts are finished and no beam can become better than the last of them.
// The sum s of a beam is negative and can only decrease, so that its score is at most s /
// m^length_penalty, where m is the most tokens that a text may have for a penalty above 0, and one
// more than the beam has for a penalty below 0 (for 0 it makes no difference). The texts are then
// exactly those that a complete search would find.
//
// The texts depend neither on threads nor on other contents of the cache. Throws a kUsage Error for
// options out of their ranges, for a prompt that is empty, has ids without a token or is longer
// than the context, and if no token may come next. REQUIRES: BeamSearchPages free pages in the
// cache.
std::vector<BeamText> BeamSearch(Decoder& decoder, std::span<const int32_t> prompt,
                                 const BeamSearchOptions& options);

}  // namespace folio
