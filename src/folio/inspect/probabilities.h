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

// The prediction of one token of a text.
struct TokenScore {
  int32_t id = 0;
  double probability = 0;
  double surprise = 0;  // -ln probability, nats
  int64_t rank = 0;     // number of likelier tokens (among equals those with lower id)
  double entropy = 0;   // of the prediction, nats
  std::vector<TokenProbability> top = {};  // likeliest first
};

// The predictions of the tokens of a text.
struct TokenScores {
  ModelText text;
  std::vector<TokenScore> tokens = {};  // of tokens 1 to T-1
  double surprise = 0;                  // mean, nats
  double entropy = 0;                   // mean over predictions, nats
  double bits_per_byte = 0;             // 0 if the number of bytes is not known
  int64_t vocab_size = 0;
};

// The score of the token `id` by logits (V), with the `top` likeliest tokens.
TokenScore ScoreToken(std::span<const float> logits, int32_t id, int64_t top);
// The windows in which ScoreTokens reads a text. The tokenizer may be null.
std::vector<TextWindow> ScoreWindows(const ModelText& text, int64_t n_positions,
                                     const Tokenizer* tokenizer);
// The scores of a text from those of its tokens from the second on, with their means.
TokenScores CollectScores(ModelText text, std::vector<TokenScore> tokens, int64_t vocab_size,
                          const Tokenizer* tokenizer);

// Runs the model on the text, of at least two tokens; keeps the `top` likeliest tokens at each
// place. A text longer than the model's context is read in windows (eval/perplexity.h) that begin
// every half of it, each with the ids that the tokenizer puts before texts if the text has them.
// REQUIRES: no mask for such a text.
TokenScores ScoreTokens(const OpenedModel& model, ModelText text, int64_t top);
// The same with another backend than the model's, which may be in use. `tokenizer` may be null.
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

// Returns from 0 to 1 the strength of the token's colour by "rank", "probability" or "entropy":
// more for less expected tokens, or less certain predictions.
double TokenHeat(const TokenScores& scores, const TokenScore& score, const std::string& by);

}  // namespace folio
