#include "folio/inspect/trace.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "folio/base/error.h"
#include "folio/infer/token_probabilities.h"
#include "folio/model/layers/attention.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

// Columns of x (T,width), dense.
std::vector<float> Columns(const Tensor& x, const ColumnRange& columns) {
  const int64_t T = x.dim(0), D = columns.width;
  const SequenceView part = View(x, 1, T, columns);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(T * D));
  for (int64_t t = 0; t < T; ++t) {
    const float* row = part.row<float>(0, t);
    out.insert(out.end(), row, row + D);
  }
  return out;
}

}  // namespace

// Copies the outputs of a pass into the trace.
class Trace::Keeper : public TraceSink {
 public:
  explicit Keeper(const Trace& trace) : trace_(trace) {}

  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    if (!trace_.Has(point)) return;
    const Tensor to = trace_.At(point, layer);
    FOLIO_CHECK(to.shape() == x.shape(), "another shape than this point has");
    CopyElements(x, to);
  }

 private:
  const Trace& trace_;
};

Trace::Trace(Backend& backend, const GptWeights& weights, std::span<const int32_t> ids,
             const std::vector<TracePoint>& points, std::span<const float> mask)
    : backend_(backend),
      weights_(weights),
      ids_(ids.begin(), ids.end()),
      mask_values_(mask.begin(), mask.end()) {
  if (weights.dtype() != Dtype::kF32) {
    throw UsageError(fmt::format("weights in {} cannot be traced", DtypeName(weights.dtype())),
                     "a trace is float32", "open the model with dtype fp32");
  }
  if (T() < 1 || T() > config().n_positions) {
    throw UsageError(fmt::format("{} tokens cannot be traced", T()),
                     fmt::format("the context holds from 1 to {}", config().n_positions));
  }
  if (!mask.empty()) {
    if (std::ssize(mask) != T() * T()) {
      throw UsageError(fmt::format("a mask of {} numbers for {} tokens", mask.size(), T()),
                       fmt::format("it is ({},{})", T(), T()));
    }
    mask_ = Tensor(mask_values_.data(), {1, 1, T(), T()});
  }
  std::array<std::vector<MemoryPlan::Id>, kTracePoints.size()> buffers;
  MemoryPlan plan;
  for (const TracePoint point : points) {
    std::vector<MemoryPlan::Id>& layers = buffers[static_cast<size_t>(point)];
    const size_t L = InfoOf(point).once ? 1 : static_cast<size_t>(config().n_layer);
    while (layers.size() < L) {
      layers.push_back(plan.Add(std::string(InfoOf(point).name), Dtype::kF32,
                                {T(), InfoOf(point).width(config())}));
    }
  }
  plan.Place();
  arena_ = Arena(plan);
  for (size_t point = 0; point < buffers.size(); ++point) {
    for (const MemoryPlan::Id id : buffers[point]) kept_[point].push_back(arena_.Get(plan, id));
  }
  GptPass pass(backend, config(), 1, T(), PassKind::kForward);
  Keeper keeper(*this);
  pass.set_trace(&keeper);
  pass.set_mask(mask_);
  pass.Forward(weights.params(), ids);
}

std::vector<TracePoint> Trace::AllPoints() {
  std::vector<TracePoint> points;
  for (size_t p = 0; p < kTracePoints.size(); ++p) points.push_back(static_cast<TracePoint>(p));
  return points;
}

Tensor Trace::At(TracePoint point, int64_t layer) const {
  FOLIO_CHECK(Has(point), "the trace was not asked to keep this point");
  if (layer < 0 || layer >= std::ssize(Kept(point))) {
    throw UsageError(fmt::format("no layer {}", layer),
                     fmt::format("there are 0 to {}", std::ssize(Kept(point)) - 1));
  }
  return Kept(point)[static_cast<size_t>(layer)];
}

Tensor Trace::Stream(int64_t layer) const {
  return layer == 0 ? At(TracePoint::kEmbedded) : At(TracePoint::kOutput, layer - 1);
}

HeadTrace Trace::Head(int64_t layer, int64_t head) const {
  const HeadLayout heads = config().head_layout();
  const int64_t D = heads.head_dim;
  const Tensor qkv = At(TracePoint::kQkv, layer);
  HeadTrace trace{.T = T(), .D = D};
  trace.scores.resize(static_cast<size_t>(T() * T()));
  trace.weights.resize(static_cast<size_t>(T() * T()));
  trace.context.resize(static_cast<size_t>(T() * D));
  HeadWeights(layer, head, trace.weights);
  trace.q = Columns(qkv, heads.q(head));
  trace.k = Columns(qkv, heads.k(head));
  trace.v = Columns(qkv, heads.v(head));
  const Tensor q(trace.q.data(), {T(), D}), k(trace.k.data(), {T(), D}),
      v(trace.v.data(), {T(), D});
  const auto there = [&](const Tensor& x) { return DeviceCopy(x, "head", backend_.memory()); };
  const DeviceCopy scores = there(Tensor(trace.scores.data(), {T(), T()}));
  const DeviceCopy context = there(Tensor(trace.context.data(), {T(), D}));
  const DeviceCopy queries = there(q), keys = there(k), values = there(v);
  const DeviceCopy weights = there(Tensor(trace.weights.data(), {T(), T()}));
  backend_.Run(LinearForward{
      .x = queries.tensor(), .weight = keys.tensor(), .out = scores.tensor(), .transposed = true});
  scores.Fetch();
  const auto scale = static_cast<float>(config().layer(layer).score_scale);
  for (float& score : trace.scores) score *= scale;
  backend_.Run(
      LinearForward{.x = weights.tensor(), .weight = values.tensor(), .out = context.tensor()});
  context.Fetch();
  return trace;
}

void Trace::HeadWeights(int64_t layer, int64_t head, std::span<float> weights) const {
  const HeadLayout heads = config().head_layout();
  if (head < 0 || head >= heads.query_heads) {
    throw UsageError(fmt::format("no head {}", head),
                     fmt::format("there are 0 to {}", heads.query_heads - 1));
  }
  FOLIO_CHECK(std::ssize(weights) == T() * T(), "weights are (T,T)");
  Memory& memory = backend_.memory();
  const DeviceCopy qkv(At(TracePoint::kQkv, layer), "qkv", memory), mask(mask_, "mask", memory);
  const DeviceCopy out(Tensor(weights.data(), {1, 1, T(), T()}), "weights", memory);
  AttentionProbabilities(backend_, config(), layer, View(qkv.tensor(), 1, T(), heads.q(head)),
                         View(qkv.tensor(), 1, T(), heads.k(head)), out.tensor(), mask.tensor());
  out.Fetch();
}

void Trace::Logits(const Tensor& stream, int64_t begin, int64_t end, const Tensor& out) const {
  const int64_t rows = end - begin;
  MemoryPlan plan;
  const MemoryPlan::Id norm = plan.Add("norm_f", Dtype::kF32, {rows, config().n_embd});
  const MemoryPlan::Id mean = plan.Add("norm_f.mean", Dtype::kF32, {rows});
  const MemoryPlan::Id rstd = plan.Add("norm_f.rstd", Dtype::kF32, {rows});
  plan.Place();
  Memory& memory = backend_.memory();
  const Arena arena(plan, memory);
  const DeviceCopy from(stream.Slice(begin, end), "stream", memory), logits(out, "logits", memory);
  const NormActivations acts{arena.Get(plan, norm), arena.Get(plan, mean), arena.Get(plan, rstd)};
  const PassContext pass{.backend = backend_, .config = config(), .B = 1, .T = rows};
  NormForward(pass, weights_.params().ln_f, from.tensor(), acts);
  HeadLogits(pass, weights_.params(), acts.out, logits.tensor());
  logits.Fetch();
  RequireFiniteLogits({out.host<float>(), static_cast<size_t>(out.count())});
}

}  // namespace folio
