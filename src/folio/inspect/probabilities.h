#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/eval/perplexity.h"
#include "folio/infer/token_probabilities.h"
#include "folio/inspect/token_names.h"
#include "folio/inspect/trace.h"

namespace folio {

// TokenScore says how well the model predicted one token of a text.
struct TokenScore {
  int32_t id = 0;
  double probability = 0;
  double surprise = 0;  // -ln probability, nats
  int64_t rank = 0;     // tokens that were likelier (of equals those of lower id)
  double entropy = 0;   // of the prediction, nats
  std::vector<TokenProbability> top = {};  // likeliest first
};

// TokenScores says how well a model predicted each token of a text.
struct TokenScores {
  ModelText text;
  std::vector<TokenScore> tokens = {};  // of tokens 1 to T-1
  double surprise = 0;                  // mean, nats
  double entropy = 0;                   // mean of the predictions', nats
  double bits_per_byte = 0;             // 0 where the bytes are not known
  int64_t vocab_size = 0;
};

// How well a prediction, (V), foresaw the token `id`; `top` of its likeliest tokens.
TokenScore ScoreToken(std::span<const float> logits, int32_t id, int64_t top);
// The windows in which ScoreTokens sees a text. The tokenizer may be null.
std::vector<TextWindow> ScoreWindows(const ModelText& text, int64_t n_positions,
                                     const Tokenizer* tokenizer);
// The scores of a text whose tokens from the second on have these, with their means.
TokenScores CollectScores(ModelText text, std::vector<TokenScore> tokens, int64_t vocab_size,
                          const Tokenizer* tokenizer);

// Runs the model on the text, of at least two tokens; `top` of the likeliest tokens at each place.
// A text that is longer than the model's context is seen in windows (eval/perplexity.h) that begin
// every half of it, each with the beginning that the tokenizer puts before texts if the text has
// it. REQUIRES: no mask for such a text.
TokenScores ScoreTokens(const OpenedModel& model, ModelText text, int64_t top);
// Does the same with another backend than the model's, which may be busy. `tokenizer` may be null.
TokenScores ScoreTokens(Backend& backend, const GptWeights& weights, const Tokenizer* tokenizer,
                        ModelText text, int64_t top);

// Ranks in the classes of GLTR (S. Gehrmann et al., arXiv:1906.04043): 0 for the likeliest token, 1
// up to the 10th, 2 up to the 100th, 3 up to the 1000th, 4 beyond.
inline constexpr int kRankClasses = 5;
int RankClass(int64_t rank);
// "1", "2-10", "11-100", "101-1000", "1001-"
std::string RankClassName(int rank_class);
// Returns how many tokens are in each class.
std::vector<int64_t> RankClasses(const TokenScores& scores);

// Returns from 0 to 1 how much colour the token gets by "rank", "probability" or "entropy": more
// where it was expected less, or where less was known.
double TokenHeat(const TokenScores& scores, const TokenScore& score, const std::string& by);

}  // namespace folio
