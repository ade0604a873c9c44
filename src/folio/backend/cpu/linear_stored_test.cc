// Products with weights stored in another dtype, and products of a few rows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/backend/operands.h"
#include "folio/base/rng.h"
#include "folio/base/test_simd_targets.h"
#include "folio/tensor/blocks.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

constexpr int64_t kFew = LinearForward::kFewRows;

std::vector<float> SomeNumbers(int64_t count, uint64_t seed) {
  const CounterRng rng(seed, 0);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(rng.Normal(i));
  return numbers;
}

struct Sizes {
  int64_t I, O;
};

// Blocks of any bytes, with scales and minima of both signs.
void FillBlocks(Dtype dtype, uint64_t seed, std::span<std::byte> bytes) {
  constexpr uint16_t kScales[] = {0x2C00, 0xAE21, 0x2803, 0x3255, 0x0000, 0x03F1};
  const BlockLayout& layout = LayoutOf(dtype);
  const CounterRng rng(seed, 1);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(rng.Bits(i));
  const size_t step = DtypeBytes(dtype, static_cast<int64_t>(DtypeBlock(dtype)));
  for (size_t at = 0; at < bytes.size(); at += step) {
    for (size_t i = 0; i < layout.count; ++i) {
      const uint16_t scale = kScales[(at / step + 2 * i) % std::size(kScales)];
      std::memcpy(bytes.data() + at + layout.scales + 2 * i, &scale, sizeof scale);
    }
  }
}

// One layer, with a weight of its own dtype.
class Layer {
 public:
  Layer(Dtype dtype, bool transposed, Sizes sizes)
      : transposed_(transposed),
        sizes_(sizes),
        weight_(DtypeBytes(dtype, sizes.I * sizes.O)),
        bias_(SomeNumbers(sizes.O, 2)),
        view_(weight_.data(), dtype,
              transposed ? Shape{sizes.O, sizes.I} : Shape{sizes.I, sizes.O}) {
    if (IsBlocked(dtype)) {
      FillBlocks(dtype, 1, weight_);
    } else {
      EncodeFloats(SomeNumbers(sizes.I * sizes.O, 1), dtype, weight_.data());
    }
  }

  // out = x weight + bias (N,O), act of it.
  LinearForward Op(std::vector<float>& x, std::vector<float>& out, std::vector<float>& act) {
    const int64_t N = std::ssize(x) / sizes_.I;
    out.assign(static_cast<size_t>(N * sizes_.O), NAN);
    act = out;
    return {.x = Tensor(x.data(), {N, sizes_.I}),
            .weight = view_,
            .bias = Tensor(bias_.data(), {sizes_.O}),
            .out = Tensor(out.data(), {N, sizes_.O}),
            .act = Tensor(act.data(), {N, sizes_.O}),
            .transposed = transposed_};
  }

  std::vector<float> Run(Backend& backend, std::vector<float> x) {
    std::vector<float> out, act;
    backend.Run(Op(x, out, act));
    out.insert(out.end(), act.begin(), act.end());
    return out;
  }

 private:
  bool transposed_;
  Sizes sizes_;
  std::vector<std::byte> weight_;
  std::vector<float> bias_;
  Tensor view_;
};

struct Storage {
  Dtype dtype;
  bool transposed;
};

std::string StoredName(const testing::TestParamInfo<Storage>& info) {
  return std::string(DtypeName(info.param.dtype)) + (info.param.transposed ? "_transposed" : "");
}

class StoredWeights : public testing::TestWithParam<Storage> {
 protected:
  static Layer Make(Sizes sizes) { return {GetParam().dtype, GetParam().transposed, sizes}; }
  static std::vector<Sizes> AllSizes() {
    if (DtypeBlock(GetParam().dtype) == 256) return {{256, 1}, {512, 37}, {1280, 70}, {2304, 6}};
    if (IsBlocked(GetParam().dtype)) return {{32, 1}, {64, 5}, {96, 70}, {320, 515}, {2144, 6}};
    return {{1, 1}, {7, 3}, {17, 70}, {96, 129}, {203, 517}, {2100, 6}};
  }

 private:
  KeptSimdTarget kept_;
};

TEST_P(StoredWeights, AgreeWithTheReferenceOnEverySimdTarget) {
  const auto backend = MakeBackend("cpu"), reference = MakeBackend("reference");
  for (const Sizes sizes : AllSizes()) {
    Layer layer = Make(sizes);
    for (const int64_t N : {int64_t{1}, int64_t{3}, kFew, kFew + 1, 4 * kFew + 3}) {
      std::vector<float> x = SomeNumbers(N * sizes.I, 3), out, act;
      const LinearForward op = layer.Op(x, out, act);
      const Comparison<LinearForward> comparison(op, *reference);
      for (const std::string& target : SimdTargets()) {
        SCOPED_TRACE(target + " N=" + std::to_string(N) + " I=" + std::to_string(sizes.I));
        ForceSimdTarget(target);
        std::ranges::fill(out, NAN);
        backend->Run(op);
        const auto mismatch = comparison.Check(op);
        EXPECT_FALSE(mismatch) << mismatch->ToString();
      }
      // The reference must agree in float32 as well.
      reference->Run(op);
      const auto mismatch = comparison.Check(op);
      EXPECT_FALSE(mismatch) << mismatch->ToString();
    }
  }
}

// The result of a sequence must not depend on the rest of its batch.
TEST_P(StoredWeights, ARowComesOutTheSameBesideAnyOthers) {
  const auto backend = MakeBackend("cpu");
  for (const Sizes sizes : AllSizes()) {
    Layer layer = Make(sizes);
    const auto O = static_cast<size_t>(sizes.O);
    const std::vector<float> x = SomeNumbers(kFew * sizes.I, 3);
    for (const std::string& target : SimdTargets()) {
      ForceSimdTarget(target);
      const std::vector<float> all = layer.Run(*backend, x);
      ExpectSameOnThreads([&] { return layer.Run(*backend, x); });
      for (const size_t n : {size_t{0}, size_t{1}, size_t{13}, static_cast<size_t>(kFew) - 1}) {
        const auto begin = x.begin() + static_cast<int64_t>(n) * sizes.I;
        const std::vector<float> alone = layer.Run(*backend, {begin, begin + sizes.I});
        EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + sizes.O,
                               all.begin() + static_cast<int64_t>(n * O)))
            << target << " row " << n;
      }
      // Rows are multiplied some at a time: as many as there are, or fewer.
      for (const size_t count : {2u, 3u, 5u, 6u, 7u, 10u, 13u, 19u}) {
        const auto end = x.begin() + static_cast<int64_t>(count) * sizes.I;
        const std::vector<float> some = layer.Run(*backend, {x.begin(), end});
        EXPECT_TRUE(
            std::equal(all.begin(), all.begin() + static_cast<int64_t>(count * O), some.begin()))
            << target << " first " << count;
      }
    }
  }
}

TEST_P(StoredWeights, ProductsAreAddedToWhatIsThere) {
  const auto backend = MakeBackend("cpu"), reference = MakeBackend("reference");
  for (const Sizes sizes : AllSizes()) {
    Layer layer = Make(sizes);
    for (const int64_t N : {int64_t{3}, kFew + 5}) {
      std::vector<float> x = SomeNumbers(N * sizes.I, 3), out, act;
      LinearForward op = layer.Op(x, out, act);
      op.bias = op.act = Tensor();
      op.accumulate = true;
      const std::vector<float> before = SomeNumbers(N * sizes.O, 4);
      out = before;
      op.out = Tensor(out.data(), op.out.shape());
      const Comparison<LinearForward> comparison(op, *reference);
      for (const std::string& target : SimdTargets()) {
        SCOPED_TRACE(target + " N=" + std::to_string(N) + " I=" + std::to_string(sizes.I));
        ForceSimdTarget(target);
        std::ranges::copy(before, out.begin());
        backend->Run(op);
        const auto mismatch = comparison.Check(op);
        EXPECT_FALSE(mismatch) << mismatch->ToString();
      }
    }
  }
}

constexpr Storage kStorages[] = {{Dtype::kF32, false}, {Dtype::kF32, true},  {Dtype::kF16, true},
                                 {Dtype::kBF16, true}, {Dtype::kQ8_0, true}, {Dtype::kQ4_0, true},
                                 {Dtype::kQ4_1, true}, {Dtype::kQ4_K, true}, {Dtype::kQ5_K, true},
                                 {Dtype::kQ6_K, true}};
INSTANTIATE_TEST_SUITE_P(, StoredWeights, testing::ValuesIn(kStorages), StoredName);

class BlockedWeights : public testing::Test {
  KeptSimdTarget kept_;
};

// Sums of integers are exact, and rounding has one order.
TEST_F(BlockedWeights, GiveTheSameBitsOnEverySimdTarget) {
  const auto backend = MakeBackend("cpu");
  for (const Dtype dtype :
       {Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kQ4_1, Dtype::kQ4_K, Dtype::kQ5_K, Dtype::kQ6_K}) {
    const bool long_blocks = DtypeBlock(dtype) == 256;
    for (const Sizes sizes :
         {Sizes{long_blocks ? 768 : 416, 133}, Sizes{long_blocks ? 2304 : 2208, 18}}) {
      Layer layer(dtype, true, sizes);
      for (const int64_t N : {1, 5, 8}) {
        std::vector<float> x = SomeNumbers(N * sizes.I, 4), out, act;
        std::vector<float> first;
        for (const std::string& target : SimdTargets()) {
          ForceSimdTarget(target);
          backend->Run(layer.Op(x, out, act));
          if (first.empty()) first = out;
          EXPECT_EQ(out, first) << target << " N " << N;
        }
      }
    }
  }
}

// -128, which folio's encoders never write but files of other programs may contain.
TEST_F(BlockedWeights, TakeEveryByte) {
  constexpr int64_t kBlocks = 8, kI = 32 * kBlocks;
  std::vector<std::byte> weight(DtypeBytes(Dtype::kQ8_0, kI));
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] = i % 34 == 0 ? std::byte{0} : i % 34 == 1 ? std::byte{0x3C} : std::byte{0x80};
  }
  std::vector<float> x(kI, 127.0f);
  float out = 0;
  const LinearForward op{.x = Tensor(x.data(), {1, kI}),
                         .weight = Tensor(weight.data(), Dtype::kQ8_0, {1, kI}),
                         .out = Tensor(&out, {1, 1}),
                         .transposed = true};
  for (const std::string& target : SimdTargets()) {
    ForceSimdTarget(target);
    MakeBackend("cpu")->Run(op);
    EXPECT_EQ(out, -128.0f * 127 * kI) << target;
  }
}

// Rows that cannot be rounded become NaN, and no others.
TEST_F(BlockedWeights, MeetRowsRoundedTogether) {
  constexpr int64_t kI = 32 * 200;
  std::vector<float> x = SomeNumbers(kI, 6), identity(32 * 32);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 3 == 0) x[i] = std::round(x[i] * 8) / 16;  // ties
    x[i] *= std::ldexp(1.0f, static_cast<int>(i / 32) % 60 - 45);
  }
  x[40] = NAN;
  x[70] = INFINITY;
  x[100] = 1e30f;
  for (int64_t i = 0; i < 32; ++i) identity[static_cast<size_t>(33 * i)] = 127;
  std::vector<std::byte> weight(DtypeBytes(Dtype::kQ8_0, 32 * 32));
  EncodeFloats(identity, Dtype::kQ8_0, weight.data());
  std::vector<float> expected = x, out(x.size());
  RoundNumbers(Rounding::kBlockFloat, expected);
  for (float& value : expected) value *= 127;
  for (const std::string& target : SimdTargets()) {
    ForceSimdTarget(target);
    for (size_t row = 0; row < 200; row += 25) {
      MakeBackend("cpu")->Run(LinearForward{.x = Tensor(x.data() + 32 * row, {25, 32}),
                                            .weight = Tensor(weight.data(), Dtype::kQ8_0, {32, 32}),
                                            .out = Tensor(out.data() + 32 * row, {25, 32}),
                                            .transposed = true});
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(out[i])) << i;
      } else {
        EXPECT_EQ(out[i], expected[i]) << target << " " << i << " of " << x[i];
      }
    }
  }
}

TEST(StoredEmbeddings, AreDecoded) {
  constexpr int64_t V = 5, C = 256;
  const std::vector<float> numbers = SomeNumbers(V * C, 5);
  std::vector<int32_t> ids = {3, 0, 3};
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kQ4_1,
                            Dtype::kQ4_K, Dtype::kQ5_K, Dtype::kQ6_K}) {
    std::vector<std::byte> wte(DtypeBytes(dtype, V * C));
    if (IsBlocked(dtype)) {
      FillBlocks(dtype, 5, wte);
    } else {
      EncodeFloats(numbers, dtype, wte.data());
    }
    std::vector<float> decoded(V * C);
    DecodeFloats(wte.data(), dtype, std::span(decoded));
    for (const char* name : {"cpu", "reference", "checked"}) {
      std::vector<float> out(3 * C);
      MakeBackend(name)->Run(EmbeddingForward{.ids = Tensor(ids.data(), {1, 3}),
                                              .wte = Tensor(wte.data(), dtype, {V, C}),
                                              .out = Tensor(out.data(), {3, C})});
      EXPECT_TRUE(std::equal(out.begin(), out.begin() + C, decoded.begin() + 3 * C)) << name;
      EXPECT_TRUE(std::equal(out.begin() + C, out.begin() + 2 * C, decoded.begin())) << name;
    }
  }
}

}  // namespace
}  // namespace folio
