#include "folio/model/stacked_heads.h"

#include <cstring>
#include <utility>

#include "folio/model/divisors.h"

namespace folio {
namespace {

// Copies `columns` columns of each row, from column `from` of x to column `to` of out.
void CopyColumns(const Tensor& x, int64_t from, const Tensor& out, int64_t to, int64_t columns) {
  const auto at = [](const Tensor& matrix, int64_t row, int64_t column) {
    return matrix.raw() +
           static_cast<size_t>(row * matrix.dim(1) + column) * DtypeSize(matrix.dtype());
  };
  const size_t bytes = static_cast<size_t>(columns) * DtypeSize(x.dtype());
  for (int64_t n = 0; n < x.dim(0); ++n) std::memcpy(at(out, n, to), at(x, n, from), bytes);
}

}  // namespace

StackedHeads::StackedHeads(Backend& backend, const AttentionSizes& sizes, int64_t heads, int64_t B,
                           int64_t T, Dtype dtype)
    : backend_(backend) {
  CheckSize("attention", {"the number of heads", heads});
  for (int64_t h = 0; h < heads; ++h) {
    heads_.push_back(
        std::make_unique<CausalAttention>(backend, sizes, B, T, MaskOrder::kBeforeSoftmax, dtype));
  }
  MemoryPlan plan;
  const MemoryPlan::Id out = plan.Add("out", dtype, {B * T, heads * sizes.d_out});
  const MemoryPlan::Id d_context = plan.Add("d_context", dtype, {B * T, sizes.d_out});
  const MemoryPlan::Id d_x = plan.Add("d_x", dtype, {B * T, sizes.d_in});
  plan.Place();
  arena_ = Arena(plan);
  out_ = arena_.Get(plan, out);
  d_context_ = arena_.Get(plan, d_context);
  d_x_ = arena_.Get(plan, d_x);
}

const Tensor& StackedHeads::Forward(std::span<const AttentionParams> params, const Tensor& x) {
  FOLIO_CHECK(params.size() == heads_.size(), "one set of parameters per head");
  const int64_t D = d_context_.dim(1);
  for (size_t h = 0; h < heads_.size(); ++h) {
    const Tensor& context = heads_[h]->Forward(params[h], x);
    CopyColumns(context, 0, out_, static_cast<int64_t>(h) * D, D);
  }
  return out_;
}

void StackedHeads::Backward(std::span<const AttentionParams> params, const Tensor& x,
                            const Tensor& d_out, std::span<const AttentionParams> d_params,
                            const Tensor& d_x) {
  FOLIO_CHECK(params.size() == heads_.size() && d_params.size() == heads_.size(),
              "one set of parameters per head");
  const int64_t D = d_context_.dim(1);
  for (size_t h = 0; h < heads_.size(); ++h) {
    CopyColumns(d_out, static_cast<int64_t>(h) * D, d_context_, 0, D);
    const bool first = h == 0;
    heads_[h]->Backward(params[h], x, d_context_, d_params[h], first ? d_x : d_x_);
    if (!first) backend_.Run(ResidualForward{.residual = d_x, .x = d_x_, .out = d_x});
  }
}

AttentionWeights JoinHeads(std::span<const AttentionWeights* const> heads) {
  FOLIO_CHECK(!heads.empty(), "no heads to join");
  const AttentionSizes& one = heads.front()->sizes();
  AttentionSizes all = one;
  all.H = static_cast<int64_t>(heads.size());
  all.G = 0;
  all.d_out = all.H * one.d_out;
  AttentionWeights joined(all, heads.front()->dtype());
  const AttentionParams& to = joined.params();
  const int64_t D = one.d_out;
  int64_t column = 0;
  for (const AttentionWeights* head : heads) {
    const AttentionSizes& sizes = head->sizes();
    FOLIO_CHECK(sizes.d_in == one.d_in && sizes.kv_in() == one.kv_in() &&
                    sizes.d_out == one.d_out && sizes.H == 1 && sizes.bias == one.bias &&
                    !sizes.out_proj && head->dtype() == joined.dtype(),
                "joined heads are alike, single and without output projections");
    const AttentionParams& from = head->params();
    for (const auto& [part, whole] :
         {std::pair{&from.q, &to.q}, std::pair{&from.k, &to.k}, std::pair{&from.v, &to.v}}) {
      CopyColumns(part->weight, 0, whole->weight, column, D);
      if (!sizes.bias) continue;
      CopyColumns(part->bias.Reshape({1, D}), 0, whole->bias.Reshape({1, all.d_out}), column, D);
    }
    column += D;
  }
  return joined;
}

}  // namespace folio
