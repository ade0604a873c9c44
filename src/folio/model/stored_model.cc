#include "folio/model/stored_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/io/convert.h"

namespace folio {
namespace {

template <class T>
void Decode(const TensorInfo& from, std::span<T> to) {
  constexpr int64_t kGrain = 1 << 16;  // whole blocks
  ParallelRange(std::ssize(to), kGrain, [&](int64_t begin, int64_t end, int) {
    const auto first = static_cast<size_t>(begin);
    DecodeFloats(from.data + DtypeBytes(from.dtype, begin), from.dtype,
                 to.subspan(first, static_cast<size_t>(end) - first));
  });
}

// `to` has the columns of `from` as its rows.
template <class T>
void DecodeTransposed(const TensorInfo& from, std::span<T> to) {
  constexpr size_t kRows = 16;  // a cache line of `to` at a time
  const auto rows = static_cast<size_t>(from.shape[0]);
  const auto columns = static_cast<size_t>(from.shape[1]);
  const size_t row_bytes = DtypeBytes(from.dtype, from.shape[1]);
  std::vector<T> scratch(static_cast<size_t>(Threads()) * kRows * columns);
  ParallelRange(from.shape[0], kRows, [&](int64_t begin, int64_t end, int thread) {
    const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
    const std::span<T> block =
        std::span(scratch).subspan(static_cast<size_t>(thread) * kRows * columns, count * columns);
    DecodeFloats(from.data + first * row_bytes, from.dtype, block);
    for (size_t c = 0; c < columns; ++c) {
      for (size_t r = 0; r < count; ++r) to[c * rows + first + r] = block[r * columns + c];
    }
  });
}

template <class T>
void DecodeInto(const StoredParam& param, const Tensor& to) {
  const std::span<T> out(to.data<T>(), static_cast<size_t>(to.count()));
  if (param.transposed) {
    DecodeTransposed(param.from, out);
  } else {
    Decode(param.from, out);
  }
}

// Before memory of the configured size is taken.
void Check(const StoredModel& model) {
  const ParamTable table(model.config);
  FOLIO_CHECK(model.params.size() == table.params().size(), "parameters of another model");
  for (size_t i = 0; i < model.params.size(); ++i) {
    const TensorInfo& from = model.params[i].from;
    const Shape& shape = table.params()[i].shape;
    FOLIO_CHECK(from.shape == StoredShape(shape, model.params[i].transposed),
                "parameter of another shape");
    if (IsFloating(from.dtype)) continue;
    throw InputError(
        fmt::format("{}: tensor \"{}\" has the wrong dtype", model.file->path().string(),
                    from.name),
        fmt::format("expected floating-point numbers, found {}", DtypeName(from.dtype)));
  }
}

// Whether an exponent is all ones: NaN or infinity. A sum of integers, so that the loop becomes
// vectors: one more in the place of the exponent carries into that of the sign.
template <class T, class Bits>
bool AnyNotFinite(std::span<const T> values) {
  constexpr int kFraction = std::numeric_limits<T>::digits - 1;
  constexpr Bits kOne = Bits{1} << kFraction;
  constexpr Bits kExponent = (std::numeric_limits<Bits>::max() >> 1) & ~(kOne - 1);
  Bits seen = 0;
  for (const T value : values) seen |= (std::bit_cast<Bits>(value) & kExponent) + kOne;
  return seen >> (std::numeric_limits<Bits>::digits - 1) != 0;
}

// The place of the first number that is not finite, or -1.
template <class T, class Bits>
int64_t FindNotFinite(std::span<const T> values) {
  constexpr int64_t kGrain = 1 << 16;
  const int64_t count = std::ssize(values);
  std::atomic<int64_t> first = count;
  ParallelRange(count, kGrain, [&](int64_t begin, int64_t end, int) {
    const auto at = static_cast<size_t>(begin);
    const std::span<const T> part = values.subspan(at, static_cast<size_t>(end) - at);
    if (!AnyNotFinite<T, Bits>(part)) return;
    const int64_t found =
        begin + (std::ranges::find_if(part, [](T x) { return !std::isfinite(x); }) - part.begin());
    int64_t before = first.load();
    while (found < before && !first.compare_exchange_weak(before, found)) {
    }
  });
  return first < count ? first.load() : -1;
}

// Such a number makes every logit NaN, and a model of those writes one token for ever.
void RequireFinite(const StoredModel& model, const StoredParam& param, const Tensor& x) {
  const auto count = static_cast<size_t>(x.count());
  const bool wide = x.dtype() == Dtype::kF64;
  const int64_t at = wide ? FindNotFinite<double, uint64_t>({x.data<double>(), count})
                          : FindNotFinite<float, uint32_t>({x.data<float>(), count});
  if (at < 0) return;
  const double found = wide ? x.data<double>()[at] : x.data<float>()[at];
  const int64_t width = x.shape().back();
  std::string place = fmt::format("{}", at);
  if (x.shape().rank() == 2) {
    place = param.transposed ? fmt::format("{},{}", at % width, at / width)
                             : fmt::format("{},{}", at / width, at % width);
  }
  throw InputError(fmt::format("{}: tensor \"{}\" has a number that is not finite",
                               model.file->path().string(), param.from.name),
                   fmt::format("[{}] is {}", place, found),
                   "the file is damaged, or training diverged: take an earlier checkpoint");
}

// Keeps what the views of a mapped model point into.
struct Mapped {
  std::shared_ptr<const TensorFile> file;
  std::vector<std::unique_ptr<float[]>> copies;
};

}  // namespace

Shape StoredShape(const Shape& shape, bool transposed) {
  return transposed ? Shape{shape[1], shape[0]} : shape;
}

void GatherRows(const Tensor& parameter, bool transposed, int64_t row, std::span<float> out) {
  const float* from = parameter.data<float>();
  if (!transposed) {
    std::copy_n(from + row * parameter.shape().back(), out.size(), out.begin());
    return;
  }
  const auto columns = static_cast<size_t>(parameter.dim(0)), rows = out.size() / columns;
  from += row;
  for (size_t c = 0; c < columns; ++c, from += parameter.dim(1)) {
    for (size_t r = 0; r < rows; ++r) out[r * columns + c] = from[r];
  }
}

bool IsMaskBuffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::unique_ptr<GptWeights> ReadWeights(const StoredModel& model, Dtype dtype) {
  Check(model);
  auto weights = std::make_unique<GptWeights>(model.config, dtype);
  for (size_t i = 0; i < model.params.size(); ++i) {
    const Tensor& to = weights->tensors()[i];
    if (dtype == Dtype::kF64) {
      DecodeInto<double>(model.params[i], to);
    } else {
      DecodeInto<float>(model.params[i], to);
    }
    RequireFinite(model, model.params[i], to);
  }
  return weights;
}

std::unique_ptr<GptWeights> MapWeights(const StoredModel& model) {
  Check(model);
  const ParamTable table(model.config);
  auto owner = std::make_shared<Mapped>();
  owner->file = model.file;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < model.params.size(); ++i) {
    const auto& [from, transposed] = model.params[i];
    const Shape& shape = table.params()[i].shape;
    if (from.dtype == Dtype::kF32 && !transposed && IsAligned(from)) {
      tensors.emplace_back(const_cast<std::byte*>(from.data), Dtype::kF32, shape);
      RequireFinite(model, model.params[i], tensors.back());
      continue;
    }
    // A vector more, which kernels may read.
    constexpr size_t kPast = MemoryPlan::kAlignment / sizeof(float);
    const size_t count = static_cast<size_t>(shape.count()) + kPast;
    owner->copies.push_back(std::make_unique<float[]>(count));
    tensors.emplace_back(owner->copies.back().get(), shape);
    DecodeInto<float>(model.params[i], tensors.back());
    RequireFinite(model, model.params[i], tensors.back());
  }
  return std::make_unique<GptWeights>(model.config, std::move(tensors), std::move(owner));
}

}  // namespace folio
