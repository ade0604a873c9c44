#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/model/decoder.h"

namespace folio {

// These are the options of beam search (R. Reddy, 1977; for texts: A. Graves, arXiv:1211.3711).
// From step to step it keeps the likeliest beginnings of texts, `beams` of them, each continued by
// one more token.
struct BeamSearchOptions {
  int64_t beams = 4;  // 1 to Decoder::kFewRows
  // A text of n tokens, the one that ended it among them, has the score
  //   (sum of their log-probabilities) / n^length_penalty
  // as in transformers: 0 compares sums, 1 means, more favours long texts, less than 0 short ones.
  // Y. Wu et al., arXiv:1609.08144, divide by ((5 + n) / 6)^alpha instead.
  double length_penalty = 1;              // finite
  int64_t max_tokens = 256;               // >= 0
  std::vector<int32_t> stop_tokens = {};  // one of these ends a text and is not given out
  std::vector<bool> usable = {};          // by id: what may be chosen, no id behind; empty for all
  int64_t n = 1;                          // texts that are wanted, 1 to `beams`
};

struct BeamText {
  std::vector<int32_t> ids = {};
  double score = 0;
  double log_probability = 0;  // ln, of the tokens and of the one that ended it
  bool finished = false;       // by a stop token
};

// Pages of a cache (DecoderOptions::pages) with which such a search behind so many tokens never
// runs out: those that the prompt fills are counted once. Throws what BeamSearch throws for them.
int64_t BeamSearchPages(const GptConfig& config, int64_t prompt_tokens,
                        const BeamSearchOptions& options);

// Looks for the texts of the highest scores behind a prompt, and returns the best that it found,
// best first, `n` of them or all that there are. Log-probabilities are the model's own, over all of
// its vocabulary, in double. A text ends with a stop token, after max_tokens, or where the context
// of P tokens is full, of which none is forgotten here: behind T tokens it has P - T + 1 at most.
//
// In each step all continuations of the beams by a token are put in order: the likelier first, of
// equals that of the better beam, then the lower id. Among the first `beams`, continuations that
// end are put aside as finished; the first `beams` that do not end go on. With one beam nothing
// goes on beside a text that has ended: that is greedy search. Of equal scores the text that was
// found first is the better one.
//
// It ends early where `n` texts are finished and no beam can beat the last of them. The sum s of a
// beam is the largest that can become of it. It is negative, so that its score is at most
// s / m^length_penalty, where m is the most tokens that a text may have for a penalty above 0, and
// one more than the beam has for one below (for 0 it makes no difference); what was found by then
// is exactly what would be found at the end.
//
// The texts depend neither on threads nor on what else the cache holds. Throws a kUsage Error for
// options out of their ranges, for a prompt that is empty, no tokens or longer than the context,
// and where no token may come next. REQUIRES: so many free pages in the cache as BeamSearchPages
// says.
std::vector<BeamText> BeamSearch(Decoder& decoder, std::span<const int32_t> prompt,
                                 const BeamSearchOptions& options);

}  // namespace folio
