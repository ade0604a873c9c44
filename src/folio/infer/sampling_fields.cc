#include "folio/infer/sampling_fields.h"

namespace folio {

std::vector<Field> PenaltyFields(PenaltyOptions& of) {
  return {
      {"repetition_penalty", &of.repetition,
       "above 1: tokens that occurred before become less likely", 0.01, 100},
      {"presence_penalty", &of.presence,
       "subtracted from the logit of each token that occurred in the text", -100, 100},
      {"frequency_penalty", &of.frequency, "the same, times the number of occurrences", -100, 100},
      {"no_repeat_ngram", &of.no_repeat_ngram, "no sequence of N tokens occurs twice; 0: off", 0,
       1e9},
      {"min_tokens", &of.min_tokens, "minimum number of tokens before the text may end", 0, 1e12}};
}

std::vector<Field> ChoiceFields(SamplingOptions& of, std::optional<int64_t>& seed) {
  return {
      {"temperature", &of.temperature,
       "lower values are more predictable, higher ones more varied; 0: always the likeliest token",
       0, 1e6},
      {"top_k", &of.top_k, "choose among the K likeliest tokens; 0: all", 0, 1e9},
      {"top_p", &of.top_p, "choose among the likeliest tokens that together have this probability",
       1e-9, 1},
      {"min_p", &of.min_p,
       "choose among tokens with at least this fraction of the highest probability", 0, 1},
      {"typical", &of.typical,
       "locally typical sampling: choose among tokens near the expected surprise, up to this "
       "probability",
       1e-9, 1},
      {"seed", &seed, "seed of the choices; random if not given", 0, 9e15}};
}

}  // namespace folio
