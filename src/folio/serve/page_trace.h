#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "folio/inspect/attention.h"
#include "folio/inspect/trace.h"
#include "folio/serve/http.h"
#include "folio/serve/request_fields.h"
#include "folio/serve/served_model.h"

namespace folio {

struct TraceLimits {
  int64_t traces = 4;                  // kept at a time
  uint64_t bytes = uint64_t{2} << 30;  // that all of them may take
  double seconds = 600;                // until one that nobody looks at is gone
};

// A PageTrace is a text's way through a model, and what was read from it. Readers hold the model's
// `inspect_mutex`: all of it runs on that backend, and is remembered here.
struct PageTrace {
  std::string id;
  ServedModel* model = nullptr;
  std::unique_ptr<Trace> trace;
  uint64_t bytes = 0;  // with all that may be remembered
  double used = 0;     // when somebody last asked for it

  // Every head at one look: scores (L*H), and maps (L,H,size,size) of that size.
  std::vector<HeadScores> scores = {};
  std::vector<uint8_t> thumbs = {};
  int64_t thumb_size = 0;
  // The weights (H,T,T) of the layer that was looked at last, if they are not too many.
  int64_t weights_layer = -1;
  std::vector<float> weights = {};
  // These are the other points of one layer, by TracePoint.
  int64_t points_layer = -1;
  std::vector<std::vector<float>> points = {};
};

// Returns the bytes that a PageTrace of T tokens takes, with all that it may remember and what a
// look at it needs.
uint64_t TraceBytes(const GptConfig& config, int64_t T);
// Returns true where the weights of a layer are few enough to be remembered.
bool RemembersWeights(const GptConfig& config, int64_t T);

// The traces of a service: the last few that somebody asked for, within a number of bytes, and not
// for longer than somebody looks at them.
class PageTraces {
 public:
  explicit PageTraces(const TraceLimits& limits) : limits_(limits) {}

  // POST /api/trace. Throws an ApiError.
  HttpReply Make(ServedModel& model, const RequestFields& fields);
  // GET /api/trace/ID/...: `path` are the names behind "trace". Throws an ApiError.
  HttpReply Answer(const std::vector<std::string>& path, const HttpRequest& request);

  const TraceLimits& limits() const { return limits_; }
  // Kept now, without those whose time is over.
  int64_t count();

 private:
  std::shared_ptr<PageTrace> Find(const std::string& id);
  void Keep(std::shared_ptr<PageTrace> trace);
  void DropOld();  // the lock is held

  TraceLimits limits_;
  std::mutex mutex_;
  std::list<std::shared_ptr<PageTrace>> traces_;  // the one that was asked for last first
};

// These functions answer what is read of a trace, by a thread that holds its model's
// `inspect_mutex`. They throw ApiErrors. `request` has the parameters, and says when nobody waits
// for the answer any more.
HttpReply AnswerThumbs(PageTrace& trace, const HttpRequest& request);
HttpReply AnswerHeadMap(PageTrace& trace, int64_t layer, int64_t head, const HttpRequest& request);
HttpReply AnswerRow(PageTrace& trace, const HttpRequest& request);
HttpReply AnswerHeadScores(PageTrace& trace, const HttpRequest& request);
HttpReply AnswerSteps(PageTrace& trace, const HttpRequest& request);
HttpReply AnswerLens(PageTrace& trace, const HttpRequest& request);
HttpReply AnswerLogits(PageTrace& trace, const HttpRequest& request);
HttpReply AnswerTensor(PageTrace& trace, const std::string& name, const HttpRequest& request);

}  // namespace folio
