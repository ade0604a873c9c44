#include "folio/model/weight_init.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/model/layers/mlp.h"
#include "folio/model/shard_weights.h"
#include "folio/tensor/memory_plan.h"

namespace folio {
namespace {

double ResidualScale(const GptConfig& config) {
  return 1.0 / std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

// True if this matrix starts narrower by ResidualScale.
bool IsScaled(const GptConfig& config, const ParamRow& row) {
  if (row.init != InitKind::kResidualWeight) return false;
  return config.init_scaled_residuals == ScaledResiduals::kAll ||
         (config.init_scaled_residuals == ScaledResiduals::kMlp && row.module == kMlpCProj.name);
}

template <class Value>
void FillWith(const Tensor& param, Value&& value) {
  const HostEdit edit(param, HostEdit::kDiscard);
  const Tensor& x = edit.tensor();
  ParallelRange(x.count(), 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      if (x.dtype() == Dtype::kF64) {
        x.host<double>()[i] = value(i);
      } else {
        x.host<float>()[i] = static_cast<float>(value(i));
      }
    }
  });
  edit.Send();
}

// Gives x its first values and returns true, if these are not random.
bool FillConstant(const GptConfig& config, const ParamRow& row, const Tensor& x) {
  const auto last = static_cast<double>(std::max<int64_t>(config.n_layer - 1, 1));
  const auto falling = [&](double from, double by) {
    FillWith(x, [=](int64_t i) { return from - by * static_cast<double>(i) / last; });
  };
  switch (row.init) {
    case InitKind::kZero:
      falling(0, 0);
      return true;
    case InitKind::kOne:
      falling(1, 0);
      return true;
    case InitKind::kResidualFactor:
      falling(1.15, 0.1);
      return true;
    case InitKind::kEmbeddingFactor:
      falling(0.2, 0.15);
      return true;
    case InitKind::kBackoutFactor:
      falling(0.2, 0);
      return true;
    case InitKind::kResidualWeight:
      if (config.init != InitMethod::kNanochat) return false;
      falling(0, 0);
      return true;
    default:
      return false;
  }
}

// nanochat's first values of what is drawn: normal ones of rows of tokens and of the head, and
// uniform ones, with a deviation of 1 / sqrt(C), or in c_fc less.
bool NormalInNanochat(const ParamRow& row) {
  return row.layer < 0;
}
double SpreadInNanochat(const GptConfig& config, const ParamRow& row) {
  if (NormalInNanochat(row)) return row.kind == ParamKind::kHead ? 0.001 : 0.8;
  const double bound = std::sqrt(3 / static_cast<double>(config.n_embd));
  return row.module == kCFc.name ? 0.4 * bound : bound;
}

}  // namespace

double InitSpread(const GptConfig& config, const ParamInfo& info, int64_t column) {
  if (info.init == InitKind::kGate) return 0.02;
  if (config.init == InitMethod::kNanochat && info.init != InitKind::kFanIn) {
    return SpreadInNanochat(config, info);
  }
  if (info.init == InitKind::kFanIn) return 1 / std::sqrt(static_cast<double>(info.shape[1]));
  if (config.init == InitMethod::kNormal) {
    return config.initializer_range * (IsScaled(config, info) ? ResidualScale(config) : 1);
  }
  const bool split =
      info.init == InitKind::kQkvWeight && config.init == InitMethod::kXavierUniformSplit;
  const HeadLayout heads = config.head_layout();
  const int64_t columns = !split                     ? info.shape[1]
                          : column < heads.q_width() ? heads.q_width()
                                                     : heads.kv_width();
  return std::sqrt(6.0 / static_cast<double>(info.shape[0] + columns));
}

void InitWeights(GptWeights& weights, uint64_t seed, ParamPart part) {
  const GptConfig& config = weights.config();
  const ParamTable whole_table = weights.table().Whole();
  uint64_t number = 0;
  for (const ParamInfo& info : weights.table().params()) {
    const ParamInfo& whole = whole_table.params()[number];
    const CounterRng rng(seed, RngStream(RngPurpose::kInit, number++));
    if (part == ParamPart::kTrained && !info.trained) continue;
    const Tensor x = weights.table().View(info, weights.flat());
    if (FillConstant(config, info, x)) continue;
    const double spread = InitSpread(config, whole);
    const PlaceInWhole place(weights.table(), info, whole.shape);
    const auto index = [&](int64_t i) { return static_cast<uint64_t>(place(i)); };
    const bool of_config = info.init != InitKind::kFanIn && info.init != InitKind::kGate;
    const bool normal = config.init == InitMethod::kNormal ||
                        (config.init == InitMethod::kNanochat && NormalInNanochat(info));
    if (info.init == InitKind::kGate) {
      FillWith(x, [&](int64_t i) { return rng.Uniform(index(i)) * spread; });
    } else if (of_config && normal) {
      FillWith(x, [&](int64_t i) { return rng.Normal(index(i)) * spread; });
    } else {
      const auto width = static_cast<uint64_t>(whole.shape[1]);
      const auto q_width = static_cast<uint64_t>(config.head_layout().q_width());
      const double kv_spread = InitSpread(config, whole, config.head_layout().q_width());
      FillWith(x, [&](int64_t i) {
        const uint64_t at = index(i);
        return (2 * rng.Uniform(at) - 1) * (at % width < q_width ? spread : kv_spread);
      });
    }
  }
}

namespace {

template <class T>
void CopyRows(const Tensor& from, const Tensor& to) {
  const int64_t had = from.dim(0), rows = to.dim(0);
  const int64_t width = from.count() / had;
  FOLIO_CHECK(to.count() == rows * width, "parameters of another model");
  const T* source = from.host<T>();
  T* target = std::copy_n(source, std::min(had, rows) * width, to.host<T>());
  if (rows <= had) return;
  std::vector<double> mean(static_cast<size_t>(width));
  for (int64_t row = 0; row < had; ++row) {
    for (int64_t c = 0; c < width; ++c) {
      mean[static_cast<size_t>(c)] += static_cast<double>(source[row * width + c]);
    }
  }
  for (double& value : mean) value /= static_cast<double>(had);
  for (int64_t row = had; row < rows; ++row) {
    target = std::ranges::transform(mean, target, [](double v) { return static_cast<T>(v); }).out;
  }
}

}  // namespace

void InitParamFrom(const Tensor& from, const Tensor& to) {
  const HostCopy old(from);
  const HostEdit edit(to, HostEdit::kDiscard);
  const auto copy = to.dtype() == Dtype::kF64 ? CopyRows<double> : CopyRows<float>;
  copy(old.tensor(), edit.tensor());
  edit.Send();
}

void InitWeightsFrom(const GptWeights& from, const GptWeights& to) {
  if (!to.table().shard().whole()) {
    const auto same_shapes = [](const ParamTable& a, const ParamTable& b) {
      return std::ranges::equal(a.params(), b.params(), {}, &ParamInfo::shape, &ParamInfo::shape);
    };
    if (same_shapes(from.table(), to.table().Whole())) {
      return TakeShard(from, to);
    }
    const GptWeights whole(to.table().Whole(), to.dtype());
    InitWeightsFrom(from, whole);
    return TakeShard(whole, to);
  }
  size_t next = 0;
  const auto is_adapter = [](const ParamInfo& info) { return info.kind == ParamKind::kAdapter; };
  const std::span<const ParamInfo> sources = from.table().params();
  for (const ParamInfo& info : to.table().params()) {
    if (is_adapter(info)) continue;
    while (next < sources.size() && is_adapter(sources[next])) ++next;
    FOLIO_CHECK(next < sources.size() && sources[next].name == info.name,
                "parameters of another model");
    InitParamFrom(from.tensors()[next++], to.table().View(info, to.flat()));
  }
}

void InitWeightsLikeTorch(GptWeights& weights, TorchRng& rng) {
  FOLIO_CHECK(weights.flat().dtype() == Dtype::kF32 && weights.config().init == InitMethod::kNormal,
              "PyTorch's draws are for float32 and normal initialisation");
  FOLIO_CHECK(!weights.table().lora().on(), "PyTorch's draws know no adapters");
  const GptConfig& config = weights.config();
  const std::span<const ParamInfo> params = weights.table().params();
  std::vector<float> drawn;
  const auto draw = [&](const ParamInfo& info) { drawn.resize(size_t(info.shape.count())); };
  const auto keep = [&](const ParamInfo& info) {
    const HostEdit edit(weights.table().View(info, weights.flat()), HostEdit::kDiscard);
    const std::span<float> to = edit.elements<float>();
    if (info.kind != ParamKind::kLinear) {
      std::ranges::copy(drawn, to.begin());
      return edit.Send();
    }
    // Stored (in,out), drawn (out,in).
    const int64_t I = info.shape[0], O = info.shape[1];
    for (int64_t o = 0; o < O; ++o) {
      for (int64_t i = 0; i < I; ++i) {
        to[static_cast<size_t>(i * O + o)] = drawn[static_cast<size_t>(o * I + i)];
      }
    }
    edit.Send();
  };
  const ParamInfo& wte = params.front();

  // Construction: embeddings are standard normal, Linear layers Kaiming-uniform with a = sqrt(5),
  // whose bound is 1/sqrt(fan_in) for weight and bias alike. A tied head is drawn all the same.
  const bool tied = wte.kind == ParamKind::kTiedEmbedding;
  double bound = 0;
  const auto draw_linear = [&](int64_t fan_in) {
    bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
    rng.Uniform(drawn, -bound, bound);
  };
  for (const ParamInfo& info : params) {
    if (info.kind == ParamKind::kEmbedding && info.init == InitKind::kZero) continue;
    draw(info);
    switch (info.kind) {
      case ParamKind::kEmbedding:
      case ParamKind::kTiedEmbedding:
        rng.Normal(drawn, 0, 1);
        break;
      case ParamKind::kLinear:
        draw_linear(info.shape[0]);
        break;
      case ParamKind::kHead:
      case ParamKind::kAdapter:
        draw_linear(info.shape[1]);
        break;
      case ParamKind::kBias:
        rng.Uniform(drawn, -bound, bound);
        break;
      case ParamKind::kElementwise:
        break;  // draws nothing
    }
  }
  if (tied) {
    draw(wte);
    draw_linear(config.n_embd);
  }
  // Module.apply: every matrix again, the tied head as wte a second time.
  for (const ParamInfo& info : params) {
    if (FillConstant(config, info, weights.table().View(info, weights.flat()))) continue;
    draw(info);
    rng.Normal(drawn, 0, config.initializer_range);
    keep(info);
  }
  if (tied) {
    draw(wte);
    rng.Normal(drawn, 0, config.initializer_range);
    keep(wte);
  }
  for (const ParamInfo& info : params) {
    if (!IsScaled(config, info)) continue;
    draw(info);
    rng.Normal(drawn, 0, InitSpread(config, info));
    keep(info);
  }
}

}  // namespace folio
