#include "folio/model/gpt.h"

#include <fmt/format.h>

#include <iterator>

#include "folio/base/error.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

void RequireBegins(std::span<const int32_t> begins, int64_t B, int64_t T) {
  if (std::ssize(begins) != B * T) {
    throw UsageError(fmt::format("{} begins for a pass over {} tokens", begins.size(), B * T));
  }
  for (int64_t n = 0; n < B * T; ++n) {
    const int64_t begin = begins[static_cast<size_t>(n)];
    if (begin >= 0 && begin <= n % T) continue;
    throw UsageError(fmt::format("the text of token {} cannot begin at {}", n % T, begin),
                     "a text begins in the sequence of its token, and not behind it");
  }
}

// Tokens, of which those of other shards of the vocabulary of V are kElsewhere.
void SendTokensOf(const Shard& shard, int64_t V, std::span<const int32_t> from, const Mirror& to,
                  int32_t lowest) {
  CopyTokens(from, to.host, lowest, V);
  if (!shard.whole()) {
    const int64_t begin = shard.Begin(V), end = begin + shard.Size(V);
    for (int32_t& id : std::span(to.host.host<int32_t>(), from.size())) {
      if (id < 0) continue;
      const bool here = id >= begin && id < end;
      id = here ? static_cast<int32_t>(id - begin) : kElsewhere;
    }
  }
  to.Send();
}

// The tokens before those of `ids`, (B,T), kElsewhere in front of a text: where its position is 0,
// or its first key that may be attended to.
void FillPrevious(std::span<const int32_t> ids, int64_t T, const Tensor& positions,
                  const Tensor& key_mask, const Tensor& to) {
  const auto* position = positions.host<int32_t>();
  const auto* seen = key_mask.host<uint8_t>();
  for (size_t n = 0; n < ids.size(); ++n) {
    const bool first = position != nullptr ? position[n] == 0 : std::ssize(ids.first(n)) % T == 0;
    const bool hidden = !first && seen != nullptr && seen[n - 1] == 0;
    to.host<int32_t>()[n] = first || hidden ? kElsewhere : ids[n - 1];
  }
}

}  // namespace

MemoryPlan GptPass::Plan(const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                         const PassOptions& options) {
  return PlanBuffers({.config = config, .B = B, .T = T, .kind = kind, .options = options});
}

GptPass::GptPass(Backend& backend, const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                 const PassOptions& options)
    : config_(config),
      shape_{.config = config_, .B = B, .T = T, .kind = kind, .options = options.On(backend)},
      pass_{.backend = backend,
            .config = config_,
            .lora = shape_.options.lora,
            .shard = options.shard,
            .B = B,
            .T = T,
            .residual_norm = shape_.options.preferences.residual_norm} {
  if (!backend.Supports(options.dtype)) {
    throw UsageError(
        fmt::format("backend {} does not support {}", backend.name(), DtypeName(options.dtype)), "",
        "use another backend or dtype");
  }
  if (B < 1 || T < 1 || T > config.n_positions) {
    throw UsageError(fmt::format("no pass is over {} sequences of {} tokens", B, T),
                     fmt::format("the context holds from 1 to {}", config.n_positions));
  }
  buffers_ = std::make_unique<PassBuffers>();
  plan_ = PlanBuffers(shape_);
  arena_ = Arena(plan_, backend.memory());
  BindBuffers(shape_, plan_, arena_, *buffers_);
  loss_sum_ = DeviceCopy(Tensor(&loss_, {1}), "loss_sum", backend.memory());
  if (buffers_->sinusoids) {
    FillSinusoids(buffers_->sinusoids.host);
    buffers_->sinusoids.Send();
  }
}

GptPass::~GptPass() = default;

const Tensor& GptPass::losses() const {
  buffers_->acts.losses.Fetch();
  return buffers_->acts.losses.host;
}

void GptPass::set_key_mask(Tensor key_mask) {
  if (key_mask && (key_mask.dtype() != Dtype::kU8 || key_mask.shape() != Shape{B(), T()})) {
    throw UsageError(
        fmt::format("a mask of keys is {} {}", DtypeName(key_mask.dtype()),
                    key_mask.shape().ToString()),
        fmt::format("this pass wants {} {}", DtypeName(Dtype::kU8), Shape{B(), T()}.ToString()));
  }
  key_mask_ = DeviceCopy(key_mask, "key_mask", pass_.backend.memory());
  pass_.key_mask = key_mask_.tensor();
}

void GptPass::set_mask(Tensor mask) {
  const Dtype number = shape_.options.number();
  const bool dtype_fits = mask.dtype() == Dtype::kU8 || mask.dtype() == number;
  const bool shape_fits =
      mask.shape() == Shape{1, 1, T(), T()} || mask.shape() == Shape{B(), 1, T(), T()};
  if (mask && (!dtype_fits || !shape_fits)) {
    throw UsageError(
        fmt::format("a mask is {} {}", DtypeName(mask.dtype()), mask.shape().ToString()),
        fmt::format("this pass wants {} or {}, {} or {}", DtypeName(Dtype::kU8), DtypeName(number),
                    Shape{1, 1, T(), T()}.ToString(), Shape{B(), 1, T(), T()}.ToString()));
  }
  mask_ = DeviceCopy(mask, "mask", pass_.backend.memory());
  pass_.mask = mask_.tensor();
}

void GptPass::set_begins(std::span<const int32_t> begins) {
  FOLIO_CHECK(begins.empty() || shape_.options.packed, "not planned for texts");
  if (!begins.empty()) RequireBegins(begins, B(), T());
  pass_.mask = begins.empty() ? Tensor() : buffers_->same_text.device;
  pass_.positions = begins.empty() ? Tensor() : buffers_->positions.device;
  if (begins.empty()) return;
  uint8_t* same = buffers_->same_text.host.host<uint8_t>();
  int32_t* positions = buffers_->positions.host.host<int32_t>();
  for (int64_t n = 0; n < B() * T(); ++n) {
    const int64_t first = n / T() * T();  // of the sequence
    const int64_t begin = begins[static_cast<size_t>(n)];
    positions[n] = static_cast<int32_t>(n - first - begin);
    for (int64_t s = 0; s < T(); ++s) {
      same[n * T() + s] = begins[static_cast<size_t>(first + s)] == begin;
    }
  }
  buffers_->same_text.Send();
  buffers_->positions.Send();
}

void GptPass::set_trace(TraceSink* trace) {
  FOLIO_CHECK(trace == nullptr || (shape_.options.dtype != Dtype::kBF16 && pass_.shard.whole()),
              "a trace is not of bfloat16, nor of a shard");
  pass_.trace = trace;
}

void GptPass::Forward(const GptParams& params, std::span<const int32_t> ids,
                      DropoutContext dropout) {
  FOLIO_CHECK(!dropout.on || shape_.training(), "dropout is for training");
  SendTokensOf(pass_.shard, config_.vocab_size, ids, buffers_->ids, 0);
  if (buffers_->previous) {
    FillPrevious(ids, T(), pass_.positions ? buffers_->positions.host : Tensor(), key_mask_.host(),
                 buffers_->previous.host);
    buffers_->previous.Send();
  }
  pass_.dropout = dropout;
  TransformerForward(pass_, params, *buffers_);
}

void GptPass::Logits(const GptParams& params, int64_t begin, int64_t end, const Tensor& out) {
  FOLIO_CHECK(pass_.shard.whole(), "a shard has no whole row of logits");
  const HeadActivations& acts = buffers_->acts;
  HeadLogits(pass_, params, acts.norm_f.out.Slice(begin, end), out, acts.chunk);
}

double GptPass::Loss(const GptParams& params, std::span<const int32_t> targets) {
  SendTokensOf(pass_.shard, config_.vocab_size, targets, buffers_->targets, CrossEntropy::kIgnore);
  const HeadActivations& acts = buffers_->acts;
  HeadForward(pass_, params, acts, buffers_->targets.device, loss_sum_.tensor());
  return LossSum();
}

double GptPass::LossAndBackward(const GptParams& params, std::span<const int32_t> targets,
                                double scale, const GptParams& d_params, bool accumulate) {
  Backward(params, targets, scale, d_params, accumulate, loss_sum_.tensor());
  return LossSum();
}

void GptPass::Backward(const GptParams& params, std::span<const int32_t> targets, double scale,
                       const GptParams& d_params, bool accumulate, const Tensor& loss_sum) {
  FOLIO_CHECK(shape_.training(), "a forward pass has no backward");
  SendTokensOf(pass_.shard, config_.vocab_size, targets, buffers_->targets, CrossEntropy::kIgnore);
  pass_.accumulate = accumulate;
  if (!accumulate) ZeroWhatIsAddedTo(d_params);
  HeadForwardBackward(pass_, params, buffers_->acts, buffers_->targets.device, scale, d_params,
                      buffers_->grads, loss_sum);
  TransformerBackward(pass_, params, *buffers_, d_params);
}

void GptPass::ZeroWhatIsAddedTo(const GptParams& d_params) {
  VisitParams(config_, pass_.lora, pass_.shard, d_params,
              [&](const ParamRow& row, const Tensor& d) {
                const bool by_block = row.layer >= 0 && row.kind == ParamKind::kEmbedding;
                if (!row.trained || by_block || IsLinearWeight(row.kind)) return;
                pass_.backend.Run(Fill{.out = d, .value = 0});
              });
}

double GptPass::LossSum() const {
  loss_sum_.Fetch();
  return loss_;
}

}  // namespace folio
