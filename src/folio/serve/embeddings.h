#pragma once

#include "folio/serve/completions.h"

namespace folio {

// POST /v1/embeddings: what the final LayerNorm has of a text, its mean over the positions or, with
// "pooling": "last", that of the last one; of length 1 unless "normalize" is false. Throws an
// ApiError.
HttpReply AnswerEmbedding(ServedModel& model, const RequestFields& fields,
                          const HttpRequest& request, const AnswerLimits& limits,
                          ServiceMetrics& metrics);

}  // namespace folio
