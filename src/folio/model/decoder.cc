#include "folio/model/decoder.h"

#include "folio/model/block.h"
#include "folio/model/head.h"
#include "folio/model/norm.h"
#include "folio/model/pass_plan.h"

namespace folio {

Decoder::Decoder(Backend& backend, const GptConfig& config, const GptParams& params, Dtype dtype)
    : backend_(backend), config_(config), params_(params) {
  FOLIO_CHECK(backend.Supports(dtype) && dtype != Dtype::kBF16, "decoding is in float32 or 64");
  const PassPlan plan(config, 1, config.n_positions, PassKind::kDecode, {.dtype = dtype});
  arena_ = Arena(plan.memory);
  ids_ = arena_.Get(plan.memory, plan.ids);
  sinusoids_ = plan.Sinusoids(arena_);
  acts_ = plan.activations.Activations(plan.memory, arena_);
  bound_ = acts_;
}

void Decoder::Bind(int64_t rows, GptActivations& bound) const {
  const auto norm = [&](const NormActivations& from, NormActivations& to) {
    to = {from.out.Slice(0, rows), from.mean.Slice(0, rows), from.rstd.Slice(0, rows)};
  };
  bound.embedded = acts_.embedded.Slice(0, rows);
  bound.branch = acts_.branch.Slice(0, rows);
  norm(acts_.norm_f, bound.norm_f);
  for (size_t l = 0; l < acts_.h.size(); ++l) {
    const BlockActivations& from = acts_.h[l];
    BlockActivations& to = bound.h[l];
    norm(from.norm_1, to.norm_1);
    norm(from.norm_2, to.norm_2);
    to.qkv = from.qkv.Slice(size_, size_ + rows);
    to.past = from.qkv.Slice(0, size_ + rows);
    to.lse = Tensor(from.lse.raw(), from.lse.dtype(), {1, config_.n_head, rows});
    to.attn = from.attn.Slice(0, rows);
    to.sum_1 = from.sum_1.Slice(0, rows);
    to.fc = from.fc.Slice(0, rows);
    to.act = from.act.Slice(0, rows);
    to.sum_2 = from.sum_2.Slice(0, rows);
  }
}

const Tensor& Decoder::Append(std::span<const int32_t> ids) {
  const int64_t rows = static_cast<int64_t>(ids.size());
  FOLIO_CHECK(rows >= 1 && size_ + rows <= capacity(), "the sequence is longer than the context");
  Bind(rows, bound_);
  const Tensor tokens = Tensor(ids_.raw(), Dtype::kI32, {1, rows});
  CopyTokens(ids, tokens, 0, config_.vocab_size);
  const PassContext pass{.backend = backend_, .config = config_, .B = 1, .T = rows};
  backend_.Run(EmbeddingForward{.ids = tokens,
                                .wte = params_.wte,
                                .wpe = sinusoids_ ? sinusoids_ : params_.wpe,
                                .out = bound_.embedded,
                                .first_position = size_});
  Tensor x = bound_.embedded;
  for (size_t l = 0; l < bound_.h.size(); ++l) {
    BlockForward(pass, static_cast<int64_t>(l), params_.h[l], bound_.h[l], x, bound_.branch);
    x = BlockOutput(config_, bound_.h[l]);
  }
  NormForward(pass, params_.ln_f, x, bound_.norm_f);
  HeadLogits(pass, params_, bound_, rows - 1, rows, acts_.logits);
  size_ += rows;
  return acts_.logits;
}

}  // namespace folio
