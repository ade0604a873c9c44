#include "folio/lesson/model_tokens.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/plot/token_strip.h"

namespace folio {
namespace {

void RequireOneOf(const std::string& what, int64_t value, int64_t count) {
  if (0 <= value && value < count) return;
  throw UsageError(fmt::format("the model has no {} {}", what, value),
                   fmt::format("it has {}, counted from 0", count),
                   fmt::format("give one from 0 to {}", count - 1));
}

}  // namespace

ModelTokens TokensOf(const LessonModel& model, std::string_view text) {
  const GptConfig& config = model.weights->config();
  ModelTokens tokens;
  tokens.ids = model.tokenizer->Encode(text, "text", SpecialRule::Allow());
  const auto T = static_cast<int64_t>(tokens.ids.size());
  if (T == 0) throw InputError("text: no tokens", {}, "give it some text");
  if (T > config.n_positions) {
    throw InputError(fmt::format("text: {} tokens are too many", T),
                     fmt::format("the model sees {} at once (n_positions)", config.n_positions),
                     "shorten the text");
  }
  for (const int32_t id : tokens.ids) {
    if (id >= config.vocab_size) {
      throw InputError(fmt::format("text: the model has no token {}", id),
                       fmt::format("its tokens are 0 to {}", config.vocab_size - 1),
                       "use the tokenizer that the model was trained with");
    }
    tokens.labels.push_back(IdLabel(*model.tokenizer, id));
  }
  return tokens;
}

Matrix IdValues(const ModelTokens& tokens) {
  return Plain(RowValues({tokens.ids.begin(), tokens.ids.end()}, {.columns = tokens.labels}), 0);
}

std::string IdLabel(const Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocab_size() || tokenizer.TokenBytes(id).empty()) {
    return fmt::format("#{}", id);
  }
  return VisibleToken(tokenizer.TokenBytes(id));
}

void RequireLayer(const GptConfig& config, int64_t layer) {
  RequireOneOf("layer", layer, config.n_layer);
}

void RequireHead(const GptConfig& config, int64_t head) {
  RequireOneOf("head", head, config.n_head);
}

}  // namespace folio
