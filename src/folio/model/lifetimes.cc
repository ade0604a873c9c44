#include "folio/model/lifetimes.h"

#include <algorithm>

#include "folio/model/transformer.h"

namespace folio {
namespace {

// Nobody looks at made-up addresses. Buffers lie one behind the other; in front of them all is what
// is no buffer of the pass.
constexpr uintptr_t kElsewhereAddress = 64, kFirstAddress = 4096;

std::byte* MadeUp(uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

Tensor Outside(Dtype dtype, const Shape& shape) {
  return {MadeUp(kElsewhereAddress), dtype, shape};
}

// Parameters of the pass, or their gradients, if only the trained ones are wanted.
GptParams MadeUpParams(const PassShape& shape, bool trained_only) {
  GptParams params;
  params.h.resize(static_cast<size_t>(shape.config.n_layer));
  VisitParams(shape.config, shape.lora(), shape.shard(), params,
              [&](const ParamRow& row, Tensor& slot) {
                if (row.trained || !trained_only) slot = Outside(shape.options.number(), row.shape);
              });
  return params;
}

// Up to logits or losses, and all the way back in training.
void RunPass(const PassContext& pass, const PassShape& shape, const PassBuffers& buffers) {
  const GptParams params = MadeUpParams(shape, false);
  const Tensor& logits = buffers.acts.logits;
  TransformerForward(pass, params, buffers);
  if (shape.kind == PassKind::kDecode) {
    return HeadLogits(pass, params, buffers.acts.norm_f.out.Slice(0, logits.dim(0)), logits);
  }
  // Two chunks of the head's rows use what any number of them uses.
  PassContext head = pass;
  head.B = 1;
  head.T = std::min(shape.N(), 2 * logits.dim(0));
  if (!shape.training()) return HeadForward(head, params, buffers.acts, buffers.targets);
  const GptParams d_params = MadeUpParams(shape, true);
  HeadForwardBackward(head, params, buffers.acts, buffers.targets, 1, d_params, buffers.grads);
  TransformerBackward(pass, params, buffers, d_params);
}

}  // namespace

int32_t BufferUses::BufferAt(const std::byte* address) const {
  if (address < begins_.front() || address >= begins_.back()) return kNone;
  const auto at = std::upper_bound(begins_.begin(), begins_.end(), address);
  return static_cast<int32_t>(at - begins_.begin()) - 1;
}

void BufferUses::Use(const std::byte* address, Access access) {
  const int32_t buffer = BufferAt(address);
  if (buffer == kNone) return;
  const auto use = [&](int32_t used) {
    Lifetime& life = lives_[static_cast<size_t>(used)];
    if (life.first < 0) life.first = operation_;
    life.last = operation_;
  };
  use(buffer);
  int32_t& source = sources_[static_cast<size_t>(buffer)];
  if (access == Access::kWrite) source = kNone;
  if (source != kNone) use(source);
}

void BufferUses::Copy(const std::byte* from, const std::byte* to) {
  const int32_t source = BufferAt(from), copy = BufferAt(to);
  if (source != kNone && copy != kNone && source != copy) {
    sources_[static_cast<size_t>(copy)] = source;
  }
}

std::vector<Lifetime> RecordLifetimes(const PassShape& shape, const MemoryPlan& plan) {
  std::vector<const std::byte*> begins;
  begins.reserve(plan.buffers().size() + 1);
  uintptr_t next = kFirstAddress;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    begins.push_back(MadeUp(next));
    next += buffer.bytes;
  }
  begins.push_back(MadeUp(next));
  PassBuffers buffers;
  size_t at = 0;
  BindBuffersTo(shape, buffers, [&](const BufferRow& row) {
    return Tensor(const_cast<std::byte*>(begins[at++]), row.dtype, row.shape);
  });

  BufferUses uses(std::move(begins));
  PassContext pass{.backend = uses,
                   .config = shape.config,
                   .lora = shape.lora(),
                   .shard = shape.shard(),
                   .B = shape.B,
                   .T = shape.T,
                   .mask = buffers.same_text,
                   .dropout = {.on = shape.training()},
                   .trace = &uses,
                   .group = &uses.group(),
                   .positions = buffers.positions};
  CachedRows cached;
  std::vector<Tensor> pages;
  if (shape.kind == PassKind::kDecode) {
    const int64_t N = shape.N(), width = shape.heads().kv_width();
    const Dtype number = shape.options.number();
    pages.assign(static_cast<size_t>(shape.config.n_layer), Outside(number, {N, width}));
    cached = {.pages = pages,
              .tables = Outside(Dtype::kI32, {N, 1}),
              .keys = Outside(number, {N, width}),
              .values = Outside(number, {N, width}),
              .S = N};
    pass.positions = Outside(Dtype::kI32, {1, N});
    pass.cached = &cached;
  }
  RunPass(pass, shape, buffers);
  return {uses.lives().begin(), uses.lives().end()};
}

}  // namespace folio
