#pragma once

#include <memory>

#include "folio/infer/opened_model.h"
#include "folio/model/test_models.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat.h"

namespace folio {

// A model of random weights and bytes: 256 of them and an end of text, or with `chat` the tokens of
// conversations too.
inline OpenedModel SmallModel(bool chat = false, int64_t n_positions = 300) {
  OpenedModel model;
  model.tokenizer = std::make_unique<ByteTokenizer>();
  if (chat) model.tokenizer = WithChatTokens(*model.tokenizer);
  GptConfig config = TinyConfig();
  config.vocab_size = model.tokenizer->vocab_size();
  config.n_positions = n_positions;
  config.n_embd = 16;
  model.weights = std::make_unique<GptWeights>(config);
  Scatter(*model.weights, 1);
  model.backend = MakeBackend("cpu");
  return model;
}

}  // namespace folio
