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
#include "folio/serve/scheduler.h"

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
  // The trace needs both, and cannot be read once one of them is gone.
  std::weak_ptr<ServedModel> model = {};
  std::weak_ptr<const GptWeights> floats = {};
  std::unique_ptr<Trace> trace = {};
  uint64_t bytes = 0;  // with all that may be remembered
  double used = 0;     // when somebody last asked for it

  // Every head at one look: scores (L*H), and maps (L,H,size,size) of that size.
  std::vector<HeadScores> scores = {};
  std::vector<uint8_t> thumbs = {};
  int64_t thumb_size = 0;
  // The weights (H,T,T) of the layer that was looked at last, if they are not too many.
  int64_t weights_layer = -1;
  std::vector<float> weights = {};
  // The other points of one layer, by TracePoint.
  int64_t points_layer = -1;
  std::vector<std::vector<float>> points = {};
};

// The traces of a service: the last few that were used, within a number of bytes, until they are
// not used for a while.
class PageTraces {
 public:
  explicit PageTraces(const TraceLimits& limits) : limits_(limits) {}

  // POST /api/trace. Throws an ApiError.
  HttpReply Make(const Call& call);
  // GET /api/trace/ID/...: `answer` reads the trace that is the call's first name, while it holds
  // the model's `inspect_mutex`. Throws an ApiError.
  HttpReply Read(const Call& call, HttpReply (*answer)(PageTrace& trace, const Call& call));

 private:
  std::shared_ptr<PageTrace> Find(const std::string& id);
  void Keep(std::shared_ptr<PageTrace> trace);
  void DropOld();  // the lock is held

  TraceLimits limits_;
  std::mutex mutex_;
  std::list<std::shared_ptr<PageTrace>> traces_;  // the one that was asked for last first
};

// These functions answer what is read of a trace. They throw ApiErrors.
HttpReply AnswerThumbs(PageTrace& trace, const Call& call);
HttpReply AnswerHeadMap(PageTrace& trace, const Call& call);
HttpReply AnswerRow(PageTrace& trace, const Call& call);
HttpReply AnswerHeadScores(PageTrace& trace, const Call& call);
HttpReply AnswerSteps(PageTrace& trace, const Call& call);
HttpReply AnswerLens(PageTrace& trace, const Call& call);
HttpReply AnswerLogits(PageTrace& trace, const Call& call);
HttpReply AnswerTensor(PageTrace& trace, const Call& call);

}  // namespace folio
