#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "folio/serve/access_log.h"
#include "folio/serve/completions.h"
#include "folio/serve/http.h"
#include "folio/serve/request_fields.h"
#include "folio/serve/scheduler.h"

namespace folio {

// These functions answer what the page asks of a model as a whole (web/API.md). All of it throws an
// ApiError.

inline constexpr int64_t kMostPageTop = 50;         // likeliest tokens of a place
inline constexpr int64_t kMostScoredTokens = 4096;  // of a text

// "ids", or the tokens of "text"; one at least. More than `most` are a 400.
std::vector<int32_t> ReadPageTokens(const RequestFields& fields, const ServedModel& model,
                                    int64_t most);

// Returns the model's member of GET /api/info.
Json PageModelJson(const ServedModel& model);

// Each of these answers one address.
HttpReply AnswerVocabulary(const Call& call);
HttpReply AnswerPageTokens(const Call& call);
HttpReply AnswerPageText(const Call& call);  // events, as they come
HttpReply AnswerScores(const Call& call);
// Every token along the first three principal components; found once.
HttpReply AnswerProjectedTokens(const Call& call);
HttpReply AnswerNeighbours(const Call& call);
HttpReply AnswerPositions(const Call& call);

// [[id, ln p], ...]
Json TopPairs(const std::vector<TokenProbability>& top);

}  // namespace folio
