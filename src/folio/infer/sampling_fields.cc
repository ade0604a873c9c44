#include "folio/infer/sampling_fields.h"

namespace folio {

std::vector<Field> PenaltyFields(PenaltyOptions& of) {
  return {
      {"repetition_penalty", &of.repetition, "above 1: less likely if in prompt or text", 0.01,
       100},
      {"presence_penalty", &of.presence, "taken off the logit of a token that was written", -100,
       100},
      {"frequency_penalty", &of.frequency, "the same for each time that it was written", -100, 100},
      {"no_repeat_ngram", &of.no_repeat_ngram, "no n tokens in a row come twice; 0 for any", 0,
       1e9},
      {"min_tokens", &of.min_tokens, "the text does not end before so many tokens", 0, 1e12}};
}

std::vector<Field> ChoiceFields(SamplingOptions& of, std::optional<int64_t>& seed) {
  return {{"temperature", &of.temperature,
           "below 1 plays safe, above 1 dares; 0 takes the likeliest token", 0, 1e6},
          {"top_k", &of.top_k, "of the k likeliest and equals of the last; 0 for all", 0, 1e9},
          {"top_p", &of.top_p, "of the likeliest that reach probability p", 1e-9, 1},
          {"min_p", &of.min_p, "of those with at least p times the likeliest's", 0, 1},
          {"typical", &of.typical, "of those near the expected surprise, up to p", 1e-9, 1},
          {"seed", &seed, "of the choices; a random one if not given", 0, 9e15}};
}

}  // namespace folio
