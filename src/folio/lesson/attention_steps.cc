#include "folio/lesson/attention_steps.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "folio/backend/reference/operations.h"
#include "folio/base/check.h"

namespace folio {
namespace {

std::span<float> Elements(const Tensor& x) {
  return {x.host<float>(), static_cast<size_t>(x.count())};
}

// Applies f to each row of x.
template <class F>
StepTensor ByRow(const Tensor& x, const F& f) {
  StepTensor out(x.shape());
  std::ranges::copy(Elements(x), out.data());
  const auto S = static_cast<size_t>(x.shape().back());
  for (size_t at = 0; at < static_cast<size_t>(x.count()); at += S) {
    f(Elements(out).subspan(at, S));
  }
  return out;
}

void DivideBySum(std::span<float> row) {
  double total = 0;
  for (const float x : row) total += x;
  for (float& x : row) x = total == 0 ? 0 : static_cast<float>(x / total);
}

// Weights below the smallest normal number become 0, as in the model's kernels.
void FlushSubnormals(std::span<float> weights) {
  for (float& weight : weights) {
    if (std::abs(weight) < std::numeric_limits<float>::min()) weight = 0;
  }
}

// Queries (T,H*D), keys (S,G*D), and their sizes, (H,T,S).
reference::HeadSizes SizesOf(const Tensor& queries, const Tensor& keys, int64_t H) {
  reference::HeadSizes a{.B = 1, .T = queries.dim(0), .S = keys.dim(0), .H = H};
  a.D = queries.dim(1) / H;
  a.G = a.D == 0 ? 0 : keys.dim(1) / a.D;
  FOLIO_CHECK(a.G >= 1 && H % a.G == 0 && queries.dim(1) == H * a.D && keys.dim(1) == a.G * a.D,
              "heads of queries and keys that do not fit");
  return a;
}

}  // namespace

StepTensor AttentionScores(const Tensor& q, const Tensor& k, int64_t H, double scale) {
  const auto a = SizesOf(q, k, H);
  StepTensor scores({H, a.T, a.S});
  float* at = scores.data();
  for (int64_t row = 0; row < H * a.T; ++row) {
    const int64_t h = row / a.T, t = row % a.T;
    const float* query = q.host<float>() + (t * H + h) * a.D;
    for (int64_t s = 0; s < a.S; ++s) {
      const float* key = k.host<float>() + (s * a.G + a.KeyHead(h)) * a.D;
      *at++ = static_cast<float>(reference::Dot(query, key, a.D) * scale);
    }
  }
  return scores;
}

StepTensor Masked(const Tensor& x, std::span<const uint8_t> mask, float fill) {
  FOLIO_CHECK(std::ssize(mask) == x.dim(1) * x.dim(2), "the mask is (T,S)");
  StepTensor out(x.shape());
  for (size_t i = 0; i < Elements(x).size(); ++i) {
    out.data()[i] = mask[i % mask.size()] != 0 ? Elements(x)[i] : fill;
  }
  return out;
}

StepTensor AttentionContext(const Tensor& weights, const Tensor& v, int64_t D) {
  const int64_t H = weights.dim(0), T = weights.dim(1), S = weights.dim(2);
  StepTensor context({T, H * D});
  const auto a = SizesOf(context, v, H);
  FOLIO_CHECK(a.S == S, "values that are not as many as the weights");
  float* at = context.data();
  for (int64_t i = 0; i < T * H * D; ++i) {
    const int64_t t = i / (H * D), h = i / D % H, column = a.KeyHead(h) * D + i % D;
    double sum = 0;
    for (int64_t s = 0; s < S; ++s) {
      sum += static_cast<double>(weights.host<float>()[(h * T + t) * S + s]) *
             static_cast<double>(v.host<float>()[s * v.dim(1) + column]);
    }
    *at++ = static_cast<float>(sum);
  }
  return context;
}

StepTensor Softmax(const Tensor& x) {
  // Subtracting a row's maximum does not change the result, and keeps exp at most 1.
  return ByRow(x, [](std::span<float> row) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double max = -kInfinity;
    for (const float score : row) max = std::max(max, static_cast<double>(score));
    const auto weight = [&](double score) {
      return score == -kInfinity ? 0 : std::exp(score - max);
    };
    double total = 0;
    for (const float score : row) total += weight(score);
    for (float& score : row) score = total == 0 ? 0 : static_cast<float>(weight(score) / total);
    FlushSubnormals(row);
  });
}

StepTensor NaiveSoftmax(const Tensor& x) {
  return ByRow(x, [](std::span<float> row) {
    for (float& score : row)
      score = std::exp(score);  // float32's exp, which overflows where the formula does
    DivideBySum(row);
    FlushSubnormals(row);
  });
}

StepTensor DividedBySum(const Tensor& x) {
  return ByRow(x, DivideBySum);
}

std::vector<uint8_t> AttentionMask(int64_t T, std::span<const uint8_t> keys, bool causal) {
  const int64_t S = std::ssize(keys);
  std::vector<uint8_t> mask;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t s = 0; s < S; ++s) {
      const bool later = causal && s > t + (S - T);
      mask.push_back(!later && keys[static_cast<size_t>(s)] != 0);
    }
  }
  return mask;
}

AttentionSteps Attend(Backend& backend, const AttentionParams& params, const Tensor& query,
                      const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  AttentionSteps steps;
  const auto keep = [&](StepTensor x) { return steps.memory.emplace_back(std::move(x)).tensor(); };
  const auto projected = [&](const Tensor& x, const LinearParams& layer) {
    if (!layer.weight) return x;
    const Tensor out = keep(StepTensor({x.dim(0), layer.weight.dim(1)}));
    backend.Run(LinearForward{.x = x, .weight = layer.weight, .bias = layer.bias, .out = out});
    return out;
  };
  steps.q = projected(query, params.q);
  steps.k = projected(key, params.k);
  steps.v = projected(value, params.v);
  const int64_t H = options.H, D = steps.q.dim(1) / H;
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(D)));
  const auto masks = [&](MaskOrder order) {
    return !options.mask.empty() && options.mask_order == order;
  };
  steps.scores = steps.masked = keep(AttentionScores(steps.q, steps.k, H, scale));
  if (masks(MaskOrder::kBeforeSoftmax)) {
    const bool exponential =
        options.weighting == Weighting::kSoftmax || options.weighting == Weighting::kNaiveSoftmax;
    const float hidden = exponential ? -std::numeric_limits<float>::infinity() : 0;
    steps.masked = keep(Masked(steps.scores, options.mask, hidden));
  }
  steps.softmax = steps.masked;
  if (options.weighting == Weighting::kSoftmax) steps.softmax = keep(Softmax(steps.masked));
  if (options.weighting == Weighting::kNaiveSoftmax) {
    steps.softmax = keep(NaiveSoftmax(steps.masked));
  }
  if (options.weighting == Weighting::kSum) steps.softmax = keep(DividedBySum(steps.masked));
  steps.weights = steps.softmax;
  if (masks(MaskOrder::kAfterSoftmax)) {
    steps.weights = keep(DividedBySum(Masked(steps.softmax, options.mask, 0)));
  }
  steps.kept = steps.weights;
  if (options.dropout.active()) {
    steps.kept = keep(StepTensor(steps.weights.shape()));
    const Shape rows{H * steps.q.dim(0), steps.k.dim(0)};
    backend.Run(ResidualForward{.x = steps.weights.Reshape(rows),
                                .out = steps.kept.Reshape(rows),
                                .dropout = options.dropout});
  }
  steps.context = keep(AttentionContext(steps.kept, steps.v, D));
  steps.out = projected(steps.context, params.out);
  return steps;
}

StepTensor SideBySide(std::span<const Tensor> parts) {
  const int64_t rows = parts.front().dim(0);
  std::vector<float> all;
  for (int64_t row = 0; row < rows; ++row) {
    for (const Tensor& part : parts) {
      std::ranges::copy(Elements(RowAt(part, row)), std::back_inserter(all));
    }
  }
  return {{rows, std::ssize(all) / rows}, all};
}

AttentionWeights JoinHeads(std::span<const AttentionWeights> heads) {
  AttentionWeights joined;
  for (LinearParams AttentionParams::*layer :
       {&AttentionParams::q, &AttentionParams::k, &AttentionParams::v}) {
    std::vector<Tensor> parts;
    for (const AttentionWeights& head : heads) parts.push_back((head.params.*layer).weight);
    (joined.params.*layer).weight = joined.memory.emplace_back(SideBySide(parts));
  }
  return joined;
}

AttentionWeights AttentionDraws::Linear(const AttentionSizes& sizes) {
  AttentionWeights weights;
  const auto draw = [&](LinearParams& to, int64_t in, int64_t out, bool bias, uint64_t layer) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    StepTensor& weight = weights.memory.emplace_back(Shape{in, out});
    Uniform(Elements(weight), -bound, bound, layer, false);
    if (torch_) {
      // PyTorch draws these in the order (out,in).
      const std::vector<double> drawn = Doubles(weight);
      for (int64_t i = 0; i < in * out; ++i) {
        weight.data()[i] = static_cast<float>(drawn[static_cast<size_t>(i % out * in + i / out)]);
      }
    }
    to.weight = weight;
    if (!bias) return;
    to.bias = weights.memory.emplace_back(Shape{out});
    Uniform(Elements(to.bias), -bound, bound, layer, true);
  };
  AttentionParams& params = weights.params;
  draw(params.q, sizes.d_in, sizes.d_out, sizes.bias, 0);
  draw(params.k, sizes.kv_in(), sizes.kv_out(), sizes.bias, 1);
  draw(params.v, sizes.kv_in(), sizes.kv_out(), sizes.bias, 2);
  if (sizes.out_proj) draw(params.out, sizes.d_out, sizes.d_out, true, 3);
  ++drawn_;
  return weights;
}

AttentionWeights AttentionDraws::Unit(const AttentionSizes& sizes) {
  AttentionWeights weights;
  uint64_t layer = 0;
  for (LinearParams* to : {&weights.params.q, &weights.params.k, &weights.params.v}) {
    to->weight = weights.memory.emplace_back(Shape{sizes.d_in, sizes.d_out});
    Uniform(Elements(to->weight), 0, 1, layer++, false);
  }
  ++drawn_;
  return weights;
}

void AttentionDraws::Normal(std::span<float> out) {
  if (torch_) return torch_->Normal(out, 0, 1);
  const CounterRng rng(seed_, RngStream(RngPurpose::kInit, /*a=*/drawn_++, /*b=*/1));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(rng.Normal(i));
}

void AttentionDraws::Uniform(std::span<float> out, double low, double high, uint64_t layer,
                             bool bias) {
  if (torch_) return torch_->Uniform(out, low, high);
  const CounterRng rng(seed_, RngStream(RngPurpose::kInit, drawn_, 2 * layer + (bias ? 2 : 1)));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(low + (high - low) * ((rng.Bits(i) >> 8) * 0x1p-24));
  }
}

}  // namespace folio
