#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/infer/sampler.h"

namespace folio {

// WhenFull says what happens when a text has filled the context.
enum class WhenFull {
  kSlide,  // its oldest tokens are forgotten, and it goes on
  kStop,   // it ends
};

struct GenerateOptions {
  SamplingOptions sampling = {};
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_tokens = {};       // one of these ends the text and is not given out
  std::vector<std::string> stop_strings = {};  // for TextStreamer (text_streamer.h) alone
  std::vector<bool> usable = {};               // by id: what may be chosen; empty for all
  WhenFull when_full = WhenFull::kSlide;
  std::optional<int64_t> stride = {};  // tokens forgotten at a time, 1 to P-1; P/2 if not given
  bool truncate = false;               // of a prompt longer than P the last P - stride tokens count
  // The model's own probabilities are worked out, with so many of the likeliest tokens.
  std::optional<int64_t> likeliest = {};
};

// GenerateStats counts and times the passes of one text.
struct GenerateStats {
  int64_t prompt_tokens = 0;  // that the model saw
  int64_t shared = 0;         // of these, from the first: known from another text
  int64_t dropped = 0;        // tokens of the prompt before these
  double prompt_seconds = 0;  // until the first token could be chosen
  int64_t tokens = 0;         // that the model saw after the prompt
  double seconds = 0;         // for these, with sliding, choosing and handing out
  int64_t stride = 0;         // that was used
  int64_t passes = 0;         // of the model for these: fewer, where guesses were right
  int64_t proposed = 0;       // guesses
  int64_t accepted = 0;       // of these, right ones
  int64_t slides = 0;         // how often the context was full
  int64_t reread = 0;         // tokens that were computed again for that
  double slide_seconds = 0;   // for these
};

// ModelProbabilities holds the model's own prediction at the place of a token, before biases,
// penalties and cuts.
struct ModelProbabilities {
  double log_probability = 0;                    // ln, of the token that was chosen
  std::vector<TokenProbability> likeliest = {};  // likeliest first
  int64_t rank = 0;                              // tokens that were likelier
  double entropy = 0;                            // nats, of all tokens
};

struct NewToken {
  int32_t id = 0;
  ModelProbabilities probabilities = {};  // with GenerateOptions::likeliest
  double chance = 1;                      // with which it was chosen, after penalties and cuts
  int64_t seen = 0;                       // tokens before it that the model saw
};

// Returns how many tokens of a prompt with `length` of them a model with a context of P sees: the
// last ones.
int64_t PromptTokensSeen(int64_t length, const GenerateOptions& options, int64_t P);

enum class FinishReason { kLength, kStop, kContext, kCancelled };

// Throws a kUsage Error for a prompt, called `name`, that is empty, holds what is no token or is
// longer than a context of P (unless it is to be truncated), and for options that are out of their
// ranges or do not fit a model with that and V tokens.
void CheckGeneration(std::span<const int32_t> prompt, const GenerateOptions& options, int64_t P,
                     int64_t V, const std::string& name = "the prompt");

}  // namespace folio
