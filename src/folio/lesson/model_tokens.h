#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/lesson/step_values.h"
#include "folio/lesson/topics.h"

namespace folio {

// A text as a model sees it.
struct ModelTokens {
  std::vector<int32_t> ids;
  std::vector<std::string> labels;  // of each

  int64_t last() const { return static_cast<int64_t>(ids.size()) - 1; }
};

// Special tokens in the text become their tokens. Throws a kInput Error for a text without tokens,
// one that is longer than the model's context, or one with tokens that the model has not.
ModelTokens TokensOf(const LessonModel& model, std::string_view text);

// The ids, each below its label.
Matrix IdValues(const ModelTokens& tokens);

// Returns the label of a token: "#50300" where the tokenizer has no such token.
std::string IdLabel(const Tokenizer& tokenizer, int32_t id);

// Throw a kUsage Error where the model has no such layer or head.
void RequireLayer(const GptConfig& config, int64_t layer);
void RequireHead(const GptConfig& config, int64_t head);

}  // namespace folio
