#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace folio {

// The tokens before the next one.
struct TokenHistory {
  std::span<const int32_t> tokens = {};  // the prompt and the new tokens
  size_t prompt_tokens = 0;              // how many of them are the prompt's

  std::span<const int32_t> written() const { return tokens.subspan(prompt_tokens); }
};

struct LogitBias {
  int32_t id = 0;
  double value = 0;
};

// Changes of the logits before a token is chosen, in this order:
//   bias             is added to the logits of its tokens
//   repetition       divides logits above 0 of tokens in prompt or text, and multiplies others'
//                    (N. S. Keskar et al., arXiv:1909.05858, with the sign as in transformers)
//   presence,        subtracted from the logits of tokens of the text, not of the prompt: presence
//   frequency        once, frequency for each occurrence (as OpenAI's)
//   no_repeat_ngram  excludes tokens that would repeat a sequence of so many of prompt or text
//   min_tokens       excludes the tokens that end a text before it has so many tokens
struct PenaltyOptions {
  std::vector<LogitBias> bias = {};
  double repetition = 1;        // > 0; 1 for none
  double presence = 0;          // 0 for none
  double frequency = 0;         // 0 for none
  int64_t no_repeat_ngram = 0;  // >= 0; 0 for none
  int64_t min_tokens = 0;       // >= 0
};

// The choice of the next token. Biases and penalties come first, then banned tokens are excluded,
// then these apply, in transformers' order:
//   temperature  logits / temperature; 0 takes the likeliest token (of equals the lowest id)
//   top_k        only the k likeliest, and equals of the k-th, stay; 0 for all
//   top_p        of these the likeliest whose probabilities reach p stay, at least one; 1 for all
//                (A. Holtzman et al., arXiv:1904.09751)
//   min_p        of these stay those with at least min_p times the probability of the likeliest; 0
//                for all (M. N. Nguyen et al., arXiv:2407.01082)
//   typical      of these stay those, at least one, whose -ln p is nearest to the entropy, nearest
//                first, until their probabilities reach it, and equals of the last one; 1 for all
//                (C. Meister et al., arXiv:2202.00666)
struct SamplingOptions {
  double temperature = 1;  // >= 0
  int64_t top_k = 0;       // >= 0
  double top_p = 1;        // (0, 1]
  double min_p = 0;        // [0, 1]
  double typical = 1;      // (0, 1]
  uint64_t seed = 0;
  PenaltyOptions penalties = {};
  std::vector<int32_t> banned = {};  // never chosen
  std::vector<int32_t> forced = {};  // every text begins with these, despite the other options
};

// Throws a kUsage Error for an option out of its range, and for a bias, ban or forced token that is
// not in [0,V).
void CheckSampling(const SamplingOptions& options, int64_t V);

// A token that may come next.
struct Candidate {
  int32_t id = 0;
  float logit = 0;  // after biases and penalties
  double probability = 0;
};

// Changes logits as PenaltyOptions say.
class Penalties {
 public:
  // `ends` are the tokens that end a text.
  explicit Penalties(PenaltyOptions options, std::vector<int32_t> ends = {});

  // Returns the changed logits: `logits` itself if nothing changes, else valid until the next call.
  // They depend on the arguments and options alone, and take time for each token of the text.
  // REQUIRES: every id is that of a logit.
  std::span<const float> Apply(std::span<const float> logits, const TokenHistory& text);

 private:
  void PenaliseRepetition(const TokenHistory& text);
  void BanRepeatedNgrams(std::span<const int32_t> tokens);
  float& At(int32_t id);

  PenaltyOptions options_;
  std::vector<int32_t> ends_;
  std::vector<float> changed_;
  std::vector<int32_t> counts_;  // by id: times written, -1 in the prompt alone; 0 between calls
  std::vector<int32_t> found_;
};

// Chooses tokens. A choice depends on the logits, the options, the text so far, `rng_stream` and
// `position` alone. Sorts only the tokens that the cuts keep, or those about as likely as the drawn
// one.
class Sampler {
 public:
  // If `usable` is not empty, only tokens whose entry is true are chosen. `ends` are the tokens
  // that end a text.
  explicit Sampler(SamplingOptions options, const std::vector<bool>& usable = {},
                   std::vector<int32_t> ends = {});

  // Returns one of logits.size() tokens. Throws a kUsage Error if bans leave none, and a kDiverged
  // Error if NaN does: tokens whose logits are NaN or infinity are never chosen, and -infinity
  // excludes a token. REQUIRES: CheckSampling accepts the options.
  int32_t Sample(std::span<const float> logits, uint64_t rng_stream, uint64_t position,
                 const TokenHistory& text = {});
  // The probability of the token that Sample chose last, after penalties and cuts.
  double chance() const { return chance_; }

  // Returns the tokens that the cuts leave, likeliest first, with probabilities that add up to 1;
  // valid until the next call. For temperature 0 that is one token. Throws as Sample does.
  std::span<const Candidate> Candidates(std::span<const float> logits,
                                        const TokenHistory& text = {});

 private:
  // A token as a number, larger the likelier, and of equals the lower the id.
  using Key = uint64_t;

  void Cut(std::span<const float> logits, const TokenHistory& text);
  float ReachedByTopK(std::span<const float> logits);
  void Gather(std::span<const float> logits);
  void TakeLikeliest(std::span<const float> logits);
  void CutTopK();
  void CutTopP();
  void CutMinP();
  void CutTypical();
  void SortFirst(size_t count);
  double Exponent(Key key) const;  // ln of the weight
  double Weight(Key key) const;    // 1 for the likeliest
  double Total();                  // of the weights, which it leaves in weights_, and exponents_
  // The place in keys_ of the token that holds `goal`, of total_, in the order of likelihood.
  size_t Draw(double goal);

  SamplingOptions options_;
  Penalties penalties_;
  std::vector<std::pair<size_t, size_t>> usable_;  // from, to: the ids that may be chosen
  // The tokens that are left: the first `sorted_` sorted, likeliest first, then less likely ones.
  // Between the cuts they are in the order of ids or all sorted, so that sums do not depend on the
  // way of sorting.
  std::vector<Key> keys_;
  size_t sorted_ = 0;
  double largest_ = 0;  // logit
  double total_ = 0;
  double chance_ = 0;  // of the last choice
  std::vector<double> exponents_, weights_;
  std::vector<uint16_t> groups_;  // for Draw, as the next
  std::vector<size_t> members_;
  std::vector<std::pair<double, Key>> distances_;
  std::vector<float> maxima_;
  std::vector<Candidate> candidates_;
};

}  // namespace folio
