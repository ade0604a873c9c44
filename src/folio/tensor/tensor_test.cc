#include "folio/tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace folio {
namespace {

TEST(Dtype, NamesAndSizesAgreeWithTheTypes) {
  const auto check = []<class T>(T, std::string_view name) {
    EXPECT_EQ(DtypeSize(DtypeOf<T>()), sizeof(T));
    EXPECT_EQ(DtypeName(DtypeOf<T>()), name);
    EXPECT_EQ(DtypeFromName(name), DtypeOf<T>());
  };
  check(float{}, "F32");
  check(double{}, "F64");
  check(int64_t{}, "I64");
  check(int32_t{}, "I32");
  check(uint32_t{}, "U32");
  check(int16_t{}, "I16");
  check(uint16_t{}, "U16");
  check(int8_t{}, "I8");
  check(uint8_t{}, "U8");
  check(bool{}, "BOOL");
  for (Dtype half : {Dtype::kF16, Dtype::kBF16}) {
    EXPECT_EQ(DtypeSize(half), 2u);
    EXPECT_EQ(DtypeFromName(DtypeName(half)), half);
  }
  for (Dtype blocks : {Dtype::kQ8_0, Dtype::kQ4_0}) {
    EXPECT_EQ(DtypeBlock(blocks), 32u);
    EXPECT_EQ(DtypeFromName(DtypeName(blocks)), blocks);
    EXPECT_DEATH(DtypeSize(blocks), "no size of its own");
    EXPECT_DEATH(DtypeBytes(blocks, 31), "part of a block");
  }
  EXPECT_EQ(DtypeBytes(Dtype::kQ8_0, 96), 3 * 34u);
  EXPECT_EQ(DtypeBytes(Dtype::kQ4_0, 96), 3 * 18u);
  EXPECT_EQ(DtypeBytes(Dtype::kF16, 3), 6u);
  for (const char* unknown : {"", "f32", "F8", "F32 "}) EXPECT_FALSE(DtypeFromName(unknown));
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape().ToString(), "()");
  EXPECT_EQ(Shape({7}).ToString(), "(7)");
  EXPECT_EQ(Shape({2, 3, 5}).ToString(), "(2, 3, 5)");
  EXPECT_EQ(Shape({2, 3, 5}).count(), 30);
  EXPECT_EQ(Shape({2, 0, 5}).count(), 0);
  EXPECT_EQ(Shape({1, 2, 3, 4, 5}).back(), 5);
  EXPECT_EQ(Shape({2, 3})[0], 2);
}

TEST(Shape, EqualityMindsTheRank) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({3, 2}));
  EXPECT_FALSE(Shape({2}) == Shape({2, 1}));
  EXPECT_FALSE(Shape({2}) == Shape({2, 0}));
  EXPECT_FALSE(Shape() == Shape({0}));
}

TEST(Shape, BadDimensionsAreRefused) {
  EXPECT_DEATH(Shape({2, -1}), "negative dimension");
  EXPECT_DEATH(Shape({1, 1, 1, 1, 1, 1}), "too many dimensions");
}

// 0 1 2 ... in a tensor of the shape.
struct Counting {
  explicit Counting(Shape shape) : values(static_cast<size_t>(shape.count())) {
    std::iota(values.begin(), values.end(), 0);
    tensor = Tensor(values.data(), shape);
  }
  std::vector<int32_t> values;
  Tensor tensor;
};

TEST(Tensor, IsAView) {
  Counting x({3, 5});
  const Tensor copy = x.tensor;
  copy.data<int32_t>()[7] = -1;
  EXPECT_EQ(x.values[7], -1);
  EXPECT_EQ(copy.bytes(), 60u);
  EXPECT_EQ(copy.dtype(), Dtype::kI32);
  EXPECT_TRUE(copy);
}

TEST(Tensor, AbsentOperandReadsAsNullOfAnyType) {
  const Tensor absent;
  EXPECT_FALSE(absent);
  EXPECT_EQ(absent.data<float>(), nullptr);
  EXPECT_EQ(absent.data<int64_t>(), nullptr);
}

TEST(Tensor, WrongTypeIsRefused) {
  Counting x({3});
  EXPECT_DEATH(x.tensor.data<float>(), "another dtype");
  EXPECT_DEATH(x.tensor.data<uint32_t>(), "another dtype");
}

TEST(Tensor, ReshapeKeepsTheElements) {
  Counting x({3, 4});
  const Tensor y = x.tensor.Reshape({2, 1, 6});
  EXPECT_EQ(y.shape(), Shape({2, 1, 6}));
  EXPECT_EQ(y.data<int32_t>(), x.values.data());
  EXPECT_DEATH(x.tensor.Reshape({11}), "number of elements");
}

TEST(Tensor, SliceCutsRows) {
  Counting x({4, 3, 5});
  const Tensor y = x.tensor.Slice(1, 3);
  EXPECT_EQ(y.shape(), Shape({2, 3, 5}));
  EXPECT_EQ(y.data<int32_t>()[0], 15);
  EXPECT_EQ(x.tensor.Slice(0, 4).shape(), x.tensor.shape());
  EXPECT_EQ(x.tensor.Slice(4, 4).count(), 0);
  EXPECT_EQ(Counting({7}).tensor.Slice(6, 7).count(), 1);
  EXPECT_EQ(Tensor(x.values.data(), Shape({0, 5})).Slice(0, 0).count(), 0);
}

TEST(Tensor, SliceOutsideIsRefused) {
  Counting x({4, 3});
  EXPECT_DEATH(x.tensor.Slice(0, 5), "bad slice");
  EXPECT_DEATH(x.tensor.Slice(-1, 2), "bad slice");
  EXPECT_DEATH(x.tensor.Slice(3, 2), "bad slice");
  int32_t scalar = 0;
  EXPECT_DEATH(Tensor(&scalar, Shape()).Slice(0, 0), "bad slice");
}

TEST(SequenceView, SelectsColumnsOfAFusedTensor) {
  const int64_t B = 2, T = 3, C = 5;
  Counting fused({B * T, 3 * C});
  const SequenceView k(fused.tensor, B, T, C, C);
  EXPECT_TRUE(k);
  EXPECT_EQ(k.row_stride, 15);
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t c = 0; c < C; ++c) {
        EXPECT_EQ(k.row<int32_t>(b, t)[c], (b * T + t) * 15 + C + c);
      }
    }
  }
}

TEST(SequenceView, MisfitsAreRefused) {
  Counting fused({6, 15});
  EXPECT_DEATH(SequenceView(fused.tensor, 2, 3, 11, 5), "does not fit");
  EXPECT_DEATH(SequenceView(fused.tensor, 2, 3, -1, 5), "does not fit");
  EXPECT_DEATH(SequenceView(fused.tensor, 2, 4, 0, 5), "does not fit");
  const SequenceView view(fused.tensor, 2, 3, 10, 5);
  EXPECT_DEATH(view.row<float>(0, 0), "another dtype");
  EXPECT_FALSE(SequenceView());
}

}  // namespace
}  // namespace folio
