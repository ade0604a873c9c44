#include "folio/serve/page_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/clock.h"
#include "folio/model/head_layout.h"
#include "folio/serve/api_error.h"
#include "folio/serve/generation_fields.h"
#include "folio/serve/page_model.h"
#include "folio/serve/page_query.h"

namespace folio {
namespace {

ApiError NoTrace(const std::string& id) {
  return {404, fmt::format("there is no trace '{}' any more", id.substr(0, 40)), "", "no_trace"};
}

}  // namespace

bool RemembersWeights(const GptConfig& config, int64_t T) {
  constexpr int64_t kMost = int64_t{16} << 20;
  return config.n_head * T * T <= kMost;
}

uint64_t TraceBytes(const GptConfig& config, int64_t T) {
  const int64_t C = config.n_embd, L = config.n_layer, F = config.inner();
  const int64_t qkv = config.head_layout().qkv_width(), heads = config.head_layout().q_width();
  const int64_t kept = 2 * C + (qkv + C) * L;         // embedded, final; qkv, output
  const int64_t layer = 7 * C + qkv + heads + 2 * F;  // all points of one
  const int64_t maps = T * T * (2 + (RemembersWeights(config, T) ? config.n_head : 0));
  return sizeof(float) * static_cast<uint64_t>(T * (kept + layer) + maps);
}

HttpReply PageTraces::Make(ServedModel& model, const RequestFields& fields) {
  RequireFloat32(model);
  const GptConfig& config = model.config();
  const std::vector<int32_t> ids = ReadPageTokens(fields, model, config.n_positions);
  const auto T = std::ssize(ids);
  auto made = std::make_shared<PageTrace>();
  made->id = NewAnswerId("t");
  made->id.erase(1, 1);
  made->model = &model;
  made->bytes = TraceBytes(config, T);
  if (made->bytes > limits_.bytes) {
    throw ApiError(400,
                   fmt::format("a trace of {} tokens takes {} bytes, and there are {} for all", T,
                               made->bytes, limits_.bytes),
                   "ids");
  }
  {
    const std::lock_guard lock(model.inspect_mutex);
    made->trace = std::make_unique<Trace>(*model.inspect_backend, *model.model.weights, ids,
                                          std::vector{TracePoint::kEmbedded, TracePoint::kQkv,
                                                      TracePoint::kOutput, TracePoint::kFinal});
  }
  Keep(made);
  const ModelSummary summary = model.summary();
  return {.body = Json{{"trace", made->id},
                       {"T", T},
                       {"L", summary.layers},
                       {"H", summary.heads},
                       {"d_head", summary.head_size},
                       {"bytes", made->bytes},
                       {"expires_s", limits_.seconds},
                       {"ids", ids},
                       {"causal", summary.causal}}
                      .dump()};
}

HttpReply PageTraces::Answer(const std::vector<std::string>& path, const HttpRequest& request) {
  if (path.size() < 2) throw ApiError(404, "a trace is asked for something: /api/trace/ID/scores");
  const std::shared_ptr<PageTrace> found = Find(path[0]);
  const std::string& what = path[1];
  const std::lock_guard lock(found->model->inspect_mutex);
  if (request.gone()) throw ApiError(499, "the client is gone");
  if (path.size() == 2) {
    if (what == "thumbs") return AnswerThumbs(*found, request);
    if (what == "row") return AnswerRow(*found, request);
    if (what == "scores") return AnswerHeadScores(*found, request);
    if (what == "steps") return AnswerSteps(*found, request);
    if (what == "lens") return AnswerLens(*found, request);
    if (what == "logits") return AnswerLogits(*found, request);
  }
  if (what == "tensor" && path.size() == 3) return AnswerTensor(*found, path[2], request);
  if (what == "attn" && path.size() == 4) {
    const GptConfig& config = found->trace->config();
    return AnswerHeadMap(*found, IntegerIn(path[2], "layer", 0, config.n_layer - 1),
                         IntegerIn(path[3], "head", 0, config.n_head - 1), request);
  }
  throw ApiError(404, fmt::format("a trace has no '{}'", what.substr(0, 100)));
}

int64_t PageTraces::count() {
  const std::lock_guard lock(mutex_);
  DropOld();
  return std::ssize(traces_);
}

std::shared_ptr<PageTrace> PageTraces::Find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  DropOld();
  const auto found = std::ranges::find_if(traces_, [&](const auto& one) { return one->id == id; });
  if (found == traces_.end()) throw NoTrace(id);
  (*found)->used = SteadySeconds();
  traces_.splice(traces_.begin(), traces_, found);
  return traces_.front();
}

void PageTraces::Keep(std::shared_ptr<PageTrace> trace) {
  const std::lock_guard lock(mutex_);
  DropOld();
  uint64_t bytes = trace->bytes;
  trace->used = SteadySeconds();
  traces_.push_front(std::move(trace));
  for (auto one = std::next(traces_.begin()); one != traces_.end(); ++one) {
    bytes += (*one)->bytes;
    if (std::distance(traces_.begin(), one) < limits_.traces && bytes <= limits_.bytes) continue;
    traces_.erase(one, traces_.end());
    return;
  }
}

void PageTraces::DropOld() {
  const double oldest = SteadySeconds() - limits_.seconds;
  std::erase_if(traces_, [&](const auto& one) { return one->used < oldest; });
}

}  // namespace folio
