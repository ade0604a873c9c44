#pragma once

#include <map>
#include <mutex>
#include <string>

#include "folio/serve/http.h"
#include "folio/serve/served_model.h"

namespace folio {

// PageEmbeddings answers what the page shows of tokens and positions, as the model keeps them
// (web/API.md). All of it throws an ApiError.
class PageEmbeddings {
 public:
  // GET /api/embed/pca: every token along the first three principal components; found once.
  HttpReply Projected(ServedModel& model, const HttpRequest& request);

 private:
  std::mutex mutex_;
  std::map<const ServedModel*, std::string> frames_;
};

// GET /api/embed/nn
HttpReply AnswerNeighbours(const ServedModel& model, const HttpRequest& request);
// GET /api/wpe
HttpReply AnswerPositions(const ServedModel& model, const HttpRequest& request);

}  // namespace folio
