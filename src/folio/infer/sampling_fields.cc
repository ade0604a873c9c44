#include "folio/infer/sampling_fields.h"

#include <algorithm>
#include <iterator>

#include "folio/base/check.h"

namespace folio {

std::vector<Field> PenaltyFields(PenaltyOptions& options) {
  return {{"repetition_penalty", &options.repetition,
           "above 1: tokens that occurred before become less likely", 0.01, 100},
          {"presence_penalty", &options.presence,
           "subtracted from the logit of each token that occurred in the text", -100, 100},
          {"frequency_penalty", &options.frequency, "the same, times the number of occurrences",
           -100, 100},
          {"no_repeat_ngram", &options.no_repeat_ngram,
           "no sequence of N tokens occurs twice; 0: off", 0, 1e9},
          {"min_tokens", &options.min_tokens, "minimum number of tokens before the text may end", 0,
           1e12}};
}

std::vector<Field> ChoiceFields(SamplingOptions& options, std::optional<int64_t>& seed) {
  return {
      {"temperature", &options.temperature,
       "lower values are more predictable, higher ones more varied; 0: always the likeliest token",
       0, 1e6},
      {"top_k", &options.top_k, "choose among the K likeliest tokens; 0: all", 0, 1e9},
      {"top_p", &options.top_p,
       "choose among the likeliest tokens that together have this probability", 1e-9, 1},
      {"min_p", &options.min_p,
       "choose among tokens with at least this fraction of the highest probability", 0, 1},
      {"typical", &options.typical,
       "locally typical sampling: choose among tokens near the expected surprise, up to this "
       "probability",
       1e-9, 1},
      {"seed", &seed, "seed of the choices; random if not given", 0, 9e15}};
}

std::vector<Field> SamplingFields(SamplingOptions& options, std::optional<int64_t>& seed) {
  std::vector<Field> fields = PenaltyFields(options.penalties);
  std::ranges::move(ChoiceFields(options, seed), std::back_inserter(fields));
  return fields;
}

std::vector<Field> SuggestedFields(SamplingOptions& options) {
  std::optional<int64_t> seed;
  std::vector<Field> fields = ChoiceFields(options, seed);
  std::erase_if(fields, [](const Field& field) { return field.key == "seed"; });
  fields.push_back(PenaltyFields(options.penalties).front());
  FOLIO_CHECK(fields.back().key == "repetition_penalty", "the first of the penalties");
  return fields;
}

}  // namespace folio
