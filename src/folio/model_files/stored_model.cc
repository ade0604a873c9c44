#include "folio/model_files/stored_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/model/weight_init.h"
#include "folio/tensor/blocks.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"

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
void DecodeInto(const StoredParam& stored, std::span<T> to) {
  std::vector<std::byte> memory;
  const StoredParam param = Gathered(stored, memory);
  if (param.transposed) {
    DecodeTransposed(param.from, to);
  } else {
    Decode(param.from, to);
  }
}

template <class T>
void DecodeInto(const StoredParam& param, const Tensor& to) {
  DecodeInto(param, std::span(to.host<T>(), static_cast<size_t>(to.count())));
}

// Checks the shapes of all parameters, before memory of the configured size is allocated.
void Check(const StoredModel& model) {
  const ParamTable table(model.config);
  FOLIO_CHECK(model.params.size() == table.params().size(), "parameters of another model");
  for (size_t i = 0; i < model.params.size(); ++i) {
    const TensorInfo& from = model.params[i].from;
    const Shape& shape = table.params()[i].shape;
    FOLIO_CHECK(from.shape == StoredShape(shape, model.params[i].transposed),
                "parameter of another shape");
    FOLIO_CHECK(IsFloating(from.dtype), "a parameter of integers");
  }
}

// True if the exponent of one of these bits is all ones: of a NaN or an infinity. Sums of integers,
// so that the loop becomes vectors: one more in the place of the exponent carries into the sign's.
template <class Bits>
bool AnyNotFinite(const std::byte* data, size_t stride, int64_t count, int fraction_bits) {
  const Bits one = static_cast<Bits>(Bits{1} << fraction_bits);
  const auto exponent = static_cast<Bits>((std::numeric_limits<Bits>::max() >> 1) & ~(one - 1));
  Bits seen = 0;
  for (int64_t i = 0; i < count; ++i, data += stride) {
    Bits bits = 0;
    std::memcpy(&bits, data, sizeof(bits));
    seen = static_cast<Bits>(seen | ((bits & exponent) + one));
  }
  return seen >> (std::numeric_limits<Bits>::digits - 1) != 0;
}

// The place of the first of `count` numbers, `stride` bytes apart, that is not finite, or -1.
template <class Bits>
int64_t FindNotFinite(const std::byte* data, size_t stride, int64_t count, int fraction_bits) {
  constexpr int64_t kGrain = 1 << 16;
  std::atomic<int64_t> first = count;
  ParallelRange(count, kGrain, [&](int64_t begin, int64_t end, int) {
    const std::byte* part = data + static_cast<size_t>(begin) * stride;
    // Most often with a stride that the compiler knows.
    const bool any = stride == sizeof(Bits)
                         ? AnyNotFinite<Bits>(part, sizeof(Bits), end - begin, fraction_bits)
                         : AnyNotFinite<Bits>(part, stride, end - begin, fraction_bits);
    if (!any) return;
    int64_t found = begin;
    while (
        !AnyNotFinite<Bits>(data + static_cast<size_t>(found) * stride, stride, 1, fraction_bits)) {
      ++found;
    }
    int64_t before = first.load();
    while (found < before && !first.compare_exchange_weak(before, found)) {
    }
  });
  return first < count ? first.load() : -1;
}

// The place of the first number that is not finite; of a block whose scale is not, its first.
int64_t FindNotFinite(const Tensor& x) {
  const int64_t count = x.count();
  switch (x.dtype()) {
    case Dtype::kF64:
      return FindNotFinite<uint64_t>(x.host_bytes(), sizeof(double), count, 52);
    case Dtype::kF32:
      return FindNotFinite<uint32_t>(x.host_bytes(), sizeof(float), count, 23);
    case Dtype::kF16:
      return FindNotFinite<uint16_t>(x.host_bytes(), sizeof(uint16_t), count, 10);
    case Dtype::kBF16:
      return FindNotFinite<uint16_t>(x.host_bytes(), sizeof(uint16_t), count, 7);
    default: {
      const BlockLayout& layout = LayoutOf(x.dtype());
      const auto block = static_cast<int64_t>(DtypeBlock(x.dtype()));
      const size_t bytes = DtypeBytes(x.dtype(), block);
      int64_t first = -1;
      for (size_t i = 0; i < layout.count; ++i) {
        const std::byte* scales = x.host_bytes() + layout.scales + i * sizeof(uint16_t);
        const int64_t at = FindNotFinite<uint16_t>(scales, bytes, count / block, 10);
        if (at >= 0 && (first < 0 || at < first)) first = at;
      }
      return first < 0 ? first : first * block;
    }
  }
}

std::string Where(const StoredModel& model) {
  return model.file == nullptr ? "" : model.file->path().string() + ": ";
}

// Such a number makes every logit NaN, and a model of those writes one token for ever.
// `turned` says whether x lies the other way round than in the file.
void RequireFinite(const StoredModel& model, const StoredParam& param, const Tensor& x,
                   bool turned) {
  const int64_t at = FindNotFinite(x);
  if (at < 0) return;
  float found = std::numeric_limits<float>::quiet_NaN();
  if (!IsBlocked(x.dtype())) {
    DecodeFloats(x.host_bytes() + DtypeBytes(x.dtype(), at), x.dtype(), std::span(&found, 1));
  }
  const int64_t width = x.shape().back();
  std::string place = fmt::format("{}", at);
  if (x.shape().rank() == 2) {
    place = turned ? fmt::format("{},{}", at % width, at / width)
                   : fmt::format("{},{}", at / width, at % width);
  }
  throw InputError(
      fmt::format("{}tensor \"{}\" has a number that is not finite", Where(model), param.from.name),
      fmt::format("[{}] is {}", place, found),
      "the file is damaged, or training diverged: use an earlier checkpoint");
}

// Releases the memory that a parameter's part of the file has taken.
void Forget(const StoredModel& model, const StoredParam& stored) {
  if (model.file == nullptr) return;
  if (stored.rows.empty()) model.file->Forget(stored.from);
  for (const StoredRows& rows : stored.rows) model.file->Forget(rows.from);
}

// A parameter as float32 or float64 numbers.
void ReadParam(const StoredModel& model, const StoredParam& stored, const Tensor& to) {
  const HostEdit edit(to, HostEdit::kDiscard);
  const Tensor& x = edit.tensor();
  x.dtype() == Dtype::kF64 ? DecodeInto<double>(stored, x) : DecodeInto<float>(stored, x);
  RequireFinite(model, stored, x, stored.transposed);
  edit.Send();
  Forget(model, stored);
}

// Keeps what the views of a mapped model point into.
struct Mapped {
  std::shared_ptr<const TensorFile> file;
  std::vector<std::unique_ptr<std::byte[]>> copies;

  std::byte* Allocate(size_t bytes) {
    // A vector more, which kernels may read.
    copies.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes + MemoryPlan::kAlignment));
    return copies.back().get();
  }
};

// The dtype that a parameter gets.
Dtype TargetOf(const StoredParam& stored, const ParamInfo& info, MatrixDtype matrices) {
  if (!IsMatrix(info)) return Dtype::kF32;
  if (!matrices.as_stored) return matrices.dtype;
  const Dtype dtype = stored.from.dtype;
  if (IsBlocked(dtype) && !IsStored(dtype)) return Dtype::kQ8_0;
  return IsStored(dtype) ? dtype : Dtype::kF32;
}

// True if a parameter lies the other way round: stored ones of linear layers are (out,in).
bool IsTurned(const ParamInfo& info, Dtype dtype) {
  return IsStored(dtype) && info.kind == ParamKind::kLinear;
}

// A parameter as `dtype`.
Tensor MapParam(const StoredModel& model, const ParamInfo& info, const StoredParam& param,
                Dtype dtype, Mapped& owner) {
  std::vector<std::byte> memory;
  const StoredParam stored = Gathered(param, memory);
  const TensorInfo& from = stored.from;
  const bool turned = IsTurned(info, dtype);
  const Shape shape = StoredShape(info.shape, turned);
  if (from.dtype == dtype && stored.transposed == turned) {
    if (memory.empty() && IsAligned(from)) return {const_cast<std::byte*>(from.data), dtype, shape};
    std::byte* const to = owner.Allocate(from.bytes);
    std::memcpy(to, from.data, from.bytes);
    return {to, dtype, shape};
  }
  if (dtype == Dtype::kF32) {
    const Tensor to(owner.Allocate(DtypeBytes(dtype, shape.count())), dtype, shape);
    DecodeInto<float>(stored, to);
    return to;
  }
  if (shape.back() % static_cast<int64_t>(DtypeBlock(dtype)) != 0) {
    throw UsageError(fmt::format("{}this model cannot run as {}", Where(model), DtypeName(dtype)),
                     fmt::format("{} stores blocks of {} numbers, but rows of {} have {}",
                                 DtypeName(dtype), DtypeBlock(dtype), info.name, shape.back()),
                     "use fp32 or bf16");
  }
  std::vector<float> whole;  // of one that has to be turned
  if (stored.transposed != turned) {
    whole.resize(static_cast<size_t>(info.shape.count()));
    DecodeInto<float>(stored, Tensor(whole.data(), info.shape));
  }
  const Tensor to(owner.Allocate(DtypeBytes(dtype, shape.count())), dtype, shape);
  const int64_t bad = EncodeRows(
      dtype, shape.count() / shape.back(), shape.back(), to.host_bytes(),
      [&](int64_t row, std::span<float> numbers) {
        if (whole.empty()) {
          DecodeFloats(from.data + DtypeBytes(from.dtype, row * shape.back()), from.dtype, numbers);
        } else {
          GatherRows(Tensor(whole.data(), info.shape), turned, row, numbers);
        }
      });
  if (bad < 0) return to;
  throw InputError(fmt::format("{}tensor \"{}\" cannot be stored as {}", Where(model), from.name,
                               DtypeName(dtype)),
                   fmt::format("row {} has a number that is too large, or not a number", bad),
                   "use fp32");
}

}  // namespace

StoredModel AsStored(const GptWeights& weights) {
  FOLIO_CHECK(!weights.table().lora().on() && weights.table().shard().whole(),
              "a stored model is whole, and has no adapters");
  StoredModel model{.config = weights.config()};
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const Tensor& x = weights.tensors()[i];
    const ParamInfo& info = weights.table().params()[i];
    model.params.push_back({.from = {.name = info.name,
                                     .dtype = x.dtype(),
                                     .shape = x.shape(),
                                     .data = x.host_bytes(),
                                     .bytes = x.bytes()},
                            .transposed = IsTurned(info, x.dtype())});
  }
  return model;
}

int64_t RowAt(RowOrder order, const HeadLayout& heads, int64_t row) {
  const int64_t D = heads.head_dim, head = row / D, at = row % D;
  switch (order) {
    case RowOrder::kAsHere:
      return row;
    case RowOrder::kAdjacentPairs:
      return head * D + at / 2 + at % 2 * (D / 2);
    case RowOrder::kHeadByHead:
      return head % 3 * heads.q_width() + head / 3 * D + at;
    case RowOrder::kSwappedHalves:
      return head * D + (at + D / 2) % D;
  }
  FOLIO_CHECK(false, "no such order");
}

void AddOffset(float offset, std::span<float> numbers) {
  if (offset == 0) return;
  for (float& number : numbers) number += offset;
}

StoredParam Gathered(const StoredParam& param, std::vector<std::byte>& memory) {
  if (param.rows.empty()) return param;
  StoredParam gathered{.from = param.from, .transposed = param.transposed};
  const Dtype dtype = param.from.dtype;
  const int64_t width = param.from.shape.rank() == 1 ? 1 : param.from.shape.back();
  const size_t row_bytes = DtypeBytes(dtype, width);
  memory.resize(param.from.bytes);
  std::byte* to = memory.data();
  for (const StoredRows& rows : param.rows) {
    TensorInfo from = rows.from;
    std::vector<float> unpacked;  // of a vector in blocks
    if (width == 1 && IsBlocked(from.dtype)) {
      unpacked.resize(static_cast<size_t>(from.shape.count()));
      DecodeFloats(from.data, from.dtype, unpacked);
      from.dtype = Dtype::kF32;
      from.data = std::as_bytes(std::span(unpacked)).data();
    }
    const size_t from_bytes = DtypeBytes(from.dtype, width);
    ParallelRange(from.shape[0], 64, [&](int64_t begin, int64_t end, int) {
      std::vector<float> numbers(static_cast<size_t>(width));
      for (int64_t r = begin; r < end; ++r) {
        const std::byte* row = from.data + static_cast<size_t>(r) * from_bytes;
        std::byte* place = to + static_cast<size_t>(RowAt(rows.order, param.heads, r)) * row_bytes;
        if (from.dtype == dtype && param.add == 0) {
          std::memcpy(place, row, row_bytes);
          continue;
        }
        DecodeFloats(row, from.dtype, std::span(numbers));
        AddOffset(param.add, numbers);
        EncodeFloats(numbers, dtype, place);
      }
    });
    to += static_cast<size_t>(from.shape[0]) * row_bytes;
  }
  gathered.from.data = memory.data();
  return gathered;
}

void DecodeParam(const StoredParam& param, std::span<float> to) {
  DecodeInto(param, to);
}

Shape StoredShape(const Shape& shape, bool transposed) {
  return transposed ? Shape{shape[1], shape[0]} : shape;
}

void GatherRows(const Tensor& parameter, bool transposed, int64_t row, std::span<float> out) {
  const float* from = parameter.host<float>();
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

std::unique_ptr<GptWeights> ReadWeights(const StoredModel& model, Dtype dtype) {
  Check(model);
  auto weights = std::make_unique<GptWeights>(model.config, dtype);
  for (size_t i = 0; i < model.params.size(); ++i) {
    ReadParam(model, model.params[i], weights->tensors()[i]);
  }
  return weights;
}

void ReadWeightsInto(const StoredModel& model, const GptWeights& to) {
  // A shard takes its numbers from where they lie: nobody holds the whole model.
  if (!to.table().shard().whole()) return InitWeightsFrom(*MapWeights(model), to);
  Check(model);
  const ParamTable table(model.config);
  size_t next = 0;
  for (const ParamInfo& info : to.table().params()) {
    if (info.kind == ParamKind::kAdapter) continue;
    FOLIO_CHECK(next < table.params().size() && table.params()[next].name == info.name,
                "parameters of another model");
    const StoredParam& stored = model.params[next];
    const Shape& shape = table.params()[next++].shape;
    const Tensor target = to.table().View(info, to.flat());
    if (shape == info.shape) {
      ReadParam(model, stored, target);
      continue;
    }
    std::vector<float> numbers(static_cast<size_t>(shape.count()));
    const Tensor whole(numbers.data(), shape);
    ReadParam(model, stored, whole);
    InitParamFrom(whole, target);
  }
}

bool IsMatrix(const ParamRow& param) {
  using enum ParamKind;
  return param.shape.rank() == 2 && param.module != "wpe" && param.kind != kAdapter &&
         param.kind != kElementwise;
}

std::unique_ptr<GptWeights> MapWeights(
    const StoredModel& model, MatrixDtype matrices,
    const std::function<void(int64_t done, int64_t total)>& progress, Memory& memory) {
  Check(model);
  const ParamTable table(model.config);
  auto owner = std::make_shared<Mapped>();
  owner->file = model.file;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < model.params.size(); ++i) {
    if (progress) progress(static_cast<int64_t>(i), std::ssize(model.params));
    const ParamInfo& info = table.params()[i];
    const StoredParam& stored = model.params[i];
    const Dtype dtype = TargetOf(stored, info, matrices);
    tensors.push_back(MapParam(model, info, stored, dtype, *owner));
    RequireFinite(model, stored, tensors.back(), IsTurned(info, dtype) != stored.transposed);
    if (tensors.back().address() != stored.from.data) Forget(model, stored);
  }
  if (memory.on_host()) {
    return std::make_unique<GptWeights>(model.config, std::move(tensors), std::move(owner));
  }
  ParamTable padded(model.config, {}, {}, memory.row_multiple());
  MemoryPlan plan;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ParamInfo& info = padded.params()[i];
    const bool turned = tensors[i].shape() != info.shape;  // then it is not the head's
    plan.Add(info.name, tensors[i].dtype(), turned ? tensors[i].shape() : info.padded);
  }
  plan.Place();
  auto arena = std::make_shared<const Arena>(plan, memory);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor there = arena->Get(plan, static_cast<MemoryPlan::Id>(i));
    CopyElements(tensors[i], there.First(tensors[i].shape()));
    tensors[i] = there;
  }
  return std::make_unique<GptWeights>(std::move(padded), std::move(tensors), std::move(arena));
}

}  // namespace folio
