#include "folio/lesson/attention_weights.h"

#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/model/config.h"

namespace folio {
namespace {

// In the order of drawing; those that the sizes leave out are empty.
std::array<LinearParams, 4> Layers(const AttentionParams& params) {
  return {params.q, params.k, params.v, params.out};
}

double LinearBound(const Tensor& weight) {
  return 1.0 / std::sqrt(static_cast<double>(weight.dim(0)));
}

// Element i becomes low + (high - low) * u, u in [0,1) of 24 bits, which every dtype holds.
void FillUniform(const Tensor& x, const CounterRng& rng, double low, double high) {
  for (int64_t i = 0; i < x.count(); ++i) {
    const double u = (rng.Bits(static_cast<uint64_t>(i)) >> 8) * 0x1p-24;
    const double value = low + (high - low) * u;
    if (x.dtype() == Dtype::kF64) {
      x.data<double>()[i] = value;
    } else {
      x.data<float>()[i] = static_cast<float>(value);
    }
  }
}

}  // namespace

void AttentionSizes::Validate() const {
  CheckSize("attention", {"d_in", d_in});
  CheckSize("attention", {"d_kv_in", kv_in()});
  CheckDivides("attention", {"the number of heads", H}, {"d_out", d_out});
  CheckDivides("attention", {"the number of heads of keys and values", kv_heads()},
               {"the number of heads", H});
}

AttentionWeights::AttentionWeights(const AttentionSizes& sizes, Dtype dtype) : sizes_(sizes) {
  sizes.Validate();
  const int64_t d_kv = sizes.kv_out(), d_out = sizes.d_out;
  const auto add = [&](Tensor& slot, const Shape& shape) {
    slot = memory_.emplace_back(shape, dtype).tensor();
  };
  add(params_.q.weight, {sizes.d_in, d_out});
  add(params_.k.weight, {sizes.kv_in(), d_kv});
  add(params_.v.weight, {sizes.kv_in(), d_kv});
  if (sizes.bias) {
    add(params_.q.bias, {d_out});
    add(params_.k.bias, {d_kv});
    add(params_.v.bias, {d_kv});
  }
  if (sizes.out_proj) {
    add(params_.out.weight, {d_out, d_out});
    if (sizes.out_bias) add(params_.out.bias, {d_out});
  }
}

Dtype AttentionWeights::dtype() const {
  return params_.q.weight.dtype();
}

void DrawAttention(AttentionWeights& weights, AttentionDraws draws, TorchRng& rng) {
  FOLIO_CHECK(weights.dtype() == Dtype::kF32, "PyTorch's draws are for float32");
  const auto fill = [&](const Tensor& x, double low, double high) {
    rng.Uniform(std::span(x.data<float>(), static_cast<size_t>(x.count())), low, high);
  };
  std::vector<float> drawn;
  for (const LinearParams& layer : Layers(weights.params())) {
    if (!layer.weight) continue;
    if (draws == AttentionDraws::kUnit) {
      fill(layer.weight, 0, 1);
      continue;
    }
    const int64_t I = layer.weight.dim(0), O = layer.weight.dim(1);
    const double bound = LinearBound(layer.weight);
    drawn.resize(static_cast<size_t>(I * O));
    fill(Tensor(drawn.data(), {O, I}), -bound, bound);
    for (int64_t i = 0; i < I; ++i) {
      for (int64_t o = 0; o < O; ++o) {
        layer.weight.data<float>()[i * O + o] = drawn[static_cast<size_t>(o * I + i)];
      }
    }
    if (layer.bias) fill(layer.bias, -bound, bound);
  }
}

void DrawAttention(AttentionWeights& weights, AttentionDraws draws, uint64_t seed, uint64_t head) {
  uint64_t place = 0;
  for (const LinearParams& layer : Layers(weights.params())) {
    const CounterRng weight_rng(seed, RngStream(RngPurpose::kInit, head, ++place));
    const CounterRng bias_rng(seed, RngStream(RngPurpose::kInit, head, ++place));
    if (!layer.weight) continue;
    if (draws == AttentionDraws::kUnit) {
      FillUniform(layer.weight, weight_rng, 0, 1);
      continue;
    }
    const double bound = LinearBound(layer.weight);
    FillUniform(layer.weight, weight_rng, -bound, bound);
    if (layer.bias) FillUniform(layer.bias, bias_rng, -bound, bound);
  }
}

void CopyColumns(const Tensor& x, int64_t from, const Tensor& out, int64_t to, int64_t columns) {
  const auto at = [](const Tensor& matrix, int64_t row, int64_t column) {
    return matrix.raw() +
           static_cast<size_t>(row * matrix.dim(1) + column) * DtypeSize(matrix.dtype());
  };
  const size_t bytes = static_cast<size_t>(columns) * DtypeSize(x.dtype());
  for (int64_t n = 0; n < x.dim(0); ++n) std::memcpy(at(out, n, to), at(x, n, from), bytes);
}

AttentionWeights JoinHeads(std::span<const AttentionWeights> heads) {
  FOLIO_CHECK(!heads.empty(), "no heads to join");
  const AttentionSizes& one = heads.front().sizes();
  AttentionSizes all = one;
  all.H = std::ssize(heads);
  all.G = 0;
  all.d_out = all.H * one.d_out;
  AttentionWeights joined(all, heads.front().dtype());
  const AttentionParams& to = joined.params();
  const int64_t D = one.d_out;
  int64_t column = 0;
  for (const AttentionWeights& head : heads) {
    const AttentionSizes& sizes = head.sizes();
    FOLIO_CHECK(sizes.d_in == one.d_in && sizes.kv_in() == one.kv_in() &&
                    sizes.d_out == one.d_out && sizes.H == 1 && sizes.bias == one.bias &&
                    !sizes.out_proj && head.dtype() == joined.dtype(),
                "joined heads are alike, single and without output projections");
    const AttentionParams& from = head.params();
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
