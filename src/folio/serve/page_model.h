#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/serve/completions.h"
#include "folio/serve/http.h"
#include "folio/serve/request_fields.h"
#include "folio/serve/served_model.h"
#include "folio/serve/service_metrics.h"

namespace folio {

// These functions answer what the page asks of a model as a whole (web/API.md). All of it throws an
// ApiError.

inline constexpr int64_t kMostPageTop = 50;         // likeliest tokens of a place
inline constexpr int64_t kMostScoredTokens = 4096;  // of a text

// Throws the 400 that says so where the matrices are not float32, which looking inside needs.
void RequireFloat32(const ServedModel& model);

// "ids", or the tokens of "text"; one at least. More than `most` are a 400.
std::vector<int32_t> ReadPageTokens(const RequestFields& fields, const ServedModel& model,
                                    int64_t most);

// Its member of GET /api/info.
Json PageModelJson(const ServedModel& model);
// GET /api/vocab
HttpReply AnswerVocabulary(const ServedModel& model, const HttpRequest& request);
// POST /api/tokenize
HttpReply AnswerPageTokens(const ServedModel& model, const RequestFields& fields);
// POST /api/generate: events, as they come.
HttpReply AnswerPageText(ServedModel& model, const RequestFields& fields,
                         const HttpRequest& request, const AnswerLimits& limits,
                         ServiceMetrics& metrics);
// POST /api/score
HttpReply AnswerScores(ServedModel& model, const RequestFields& fields, const AnswerLimits& limits);

// [[id, ln p], ...]
Json TopPairs(const std::vector<TokenProbability>& top);

}  // namespace folio
