#pragma once

#include "folio/serve/access_log.h"
#include "folio/serve/http.h"
#include "folio/serve/request_fields.h"
#include "folio/serve/scheduler.h"

namespace folio {

struct TextJob;

// Reserves what the texts of an answer, and the probabilities that it tells, will take, and
// `beside` bytes more. Throws an ApiError: a 400 where it would tell more probabilities than the
// limits let it, and as MemoryBudget::Share does.
MemoryBudget::Share ReserveTexts(const TextJob& job, const Call& call, int64_t beside = 0);

// POST /v1/completions, as OpenAI's: text that goes on from prompts. Also the other fields of
// ReadGenerationFields, and return_token_ids. With "echo" the prompts come first and, with
// "logprobs", what the model made of them; "max_tokens": 0 then writes nothing. Throws an ApiError.
HttpReply AnswerCompletion(const Call& call);

// POST /v1/chat/completions: what an assistant answers to messages, by a model that was trained on
// conversations.
HttpReply AnswerChat(const Call& call);

// POST /v1/embeddings: what the final LayerNorm has of a text, its mean over the positions or, with
// "pooling": "last", that of the last one; of length 1 unless "normalize" is false. Throws an
// ApiError.
HttpReply AnswerEmbedding(const Call& call);

}  // namespace folio
