#include <algorithm>
#include <limits>

#include "folio/backend/test_op_cases.h"
#include "folio/base/rng.h"

namespace folio {

namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kUnset{0xFF};

}  // namespace

// `numbers` are kept for later memories: all use the same ones, and generating them would take half
// of the tests' time.
double OpMemory::Normal(uint64_t index) {
  static std::vector<float> numbers;
  const CounterRng rng(1, 2);
  while (numbers.size() <= index) numbers.push_back(static_cast<float>(rng.Normal(numbers.size())));
  return numbers[index];
}

Tensor OpMemory::Allocate(Dtype dtype, Shape shape) {
  const size_t bytes = static_cast<size_t>(shape.count()) * DtypeSize(dtype);
  Array& array = arrays_.emplace_back();
  array.memory.assign(bytes + 4 * kGuard, guard_);
  const auto address = reinterpret_cast<uintptr_t>(array.memory.data());
  const size_t begin =
      kGuard + (kGuard - address % kGuard) % kGuard + (misaligned_ ? DtypeSize(dtype) : 0);
  std::fill_n(array.memory.begin() + static_cast<std::ptrdiff_t>(begin), bytes, kUnset);
  array.guards = {{0, begin}, {begin + bytes, array.memory.size()}};
  return {array.memory.data() + begin, dtype, shape};
}

void OpMemory::Set(const Tensor& x, int64_t i, double value) {
  if (x.dtype() == Dtype::kF32) {
    x.data<float>()[i] = static_cast<float>(value);
  } else if (x.dtype() == Dtype::kBF16) {
    x.data<BF16>()[i] = ToBF16(static_cast<float>(value));
  } else if (x.dtype() == Dtype::kU8) {
    x.data<uint8_t>()[i] = static_cast<uint8_t>(value);
  } else if (x.dtype() == Dtype::kI32) {
    x.data<int32_t>()[i] = static_cast<int32_t>(value);
  } else {
    x.data<double>()[i] = value;
  }
}

Tensor OpMemory::Random(Dtype dtype, Shape shape, double scale) {
  const Tensor x = Allocate(dtype, shape);
  const int64_t count = x.count();
  for (int64_t i = 0; i < count; ++i) Set(x, i, static_cast<float>(Normal() * scale));
  return x;
}

Tensor OpMemory::Integers(Shape shape, int64_t limit, bool ignore) {
  const Tensor x = Allocate(Dtype::kI32, shape);
  const CounterRng rng(3, 4);
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto id = static_cast<int32_t>(rng.Below(draws_++, static_cast<uint64_t>(limit)));
    x.data<int32_t>()[i] = ignore && rng.Bits(draws_++) % 4 == 0 ? -1 : id;
  }
  return x;
}

Tensor OpMemory::Mask(Shape shape) {
  const Tensor x = Allocate(Dtype::kU8, shape);
  for (int64_t i = 0; i < x.count(); ++i) x.data<uint8_t>()[i] = Normal() > -0.5 ? 1 : 0;
  return x;
}

SequenceView OpMemory::Wide(Dtype dtype, int64_t B, int64_t T, int64_t C, int64_t gap,
                            int64_t spare) {
  const Tensor x = Allocate(dtype, {B * (T + spare), C + gap});
  SequenceView view(x, B, T + spare, 0, C);
  view.T = T;
  Array& array = arrays_.back();
  const auto offset = [&](int64_t row, int64_t column) {
    return static_cast<size_t>(x.raw() - array.memory.data()) +
           static_cast<size_t>(row * (C + gap) + column) * DtypeSize(dtype);
  };
  for (int64_t row = 0; row < B * (T + spare); ++row) {
    const int64_t used = row % (T + spare) < T ? C : 0;
    const auto& [begin, end] = array.guards.emplace_back(offset(row, used), offset(row + 1, 0));
    std::fill_n(array.memory.begin() + static_cast<std::ptrdiff_t>(begin), end - begin, guard_);
  }
  return view;
}

void OpMemory::Set(const SequenceView& x, int64_t i, double value) {
  const int64_t row = i / x.C;
  const int64_t at = row / x.T * x.batch_stride + row % x.T * x.row_stride + i % x.C;
  Set(Tensor(x.data + static_cast<size_t>(at) * DtypeSize(x.dtype), x.dtype, {1}), 0, value);
}

void OpMemory::Randomize(const SequenceView& x) {
  for (int64_t i = 0; i < x.B * x.T * x.C; ++i) Set(x, i, Normal());
}

bool OpMemory::GuardsIntact() const {
  return std::all_of(arrays_.begin(), arrays_.end(), [this](const Array& array) {
    return std::all_of(array.guards.begin(), array.guards.end(), [&](const auto& guard) {
      return std::all_of(array.memory.begin() + static_cast<std::ptrdiff_t>(guard.first),
                         array.memory.begin() + static_cast<std::ptrdiff_t>(guard.second),
                         [this](std::byte byte) { return byte == guard_; });
    });
  });
}

std::vector<std::byte> OpMemory::Bytes() const {
  std::vector<std::byte> bytes;
  for (const Array& array : arrays_) {
    const auto begin = static_cast<std::ptrdiff_t>(array.guards[0].second);
    const auto end = static_cast<std::ptrdiff_t>(array.guards[1].first);
    bytes.insert(bytes.end(), array.memory.begin() + begin, array.memory.begin() + end);
  }
  return bytes;
}

}  // namespace folio
