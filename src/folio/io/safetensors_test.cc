#include "folio/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>

#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

class SafetensorsTest : public InTemporaryDirectory {
 protected:
  SafetensorsFile Written(const std::vector<NamedTensor>& tensors) {
    WriteSafetensors(At("x"), tensors);
    return SafetensorsFile(At("x"));
  }
  SafetensorsFile Opened(std::string_view header, std::string_view data) {
    WriteFileAtomically(At("x"), SafetensorsBytes(header, data));
    return SafetensorsFile(At("x"));
  }
};

// Memory of any dtype, filled with bytes that no accident produces.
struct Bytes {
  std::vector<unsigned char> data;
  explicit Bytes(size_t size) : data(size) {
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<unsigned char>(i * 37 + 11);
  }
};

TEST_F(SafetensorsTest, EveryDtypeComesBackByteForByte) {
  std::vector<std::unique_ptr<Bytes>> owners;
  std::vector<NamedTensor> tensors;
  for (const Dtype dtype :
       {Dtype::kU8, Dtype::kI8, Dtype::kU16, Dtype::kI16, Dtype::kBF16, Dtype::kF16, Dtype::kU32,
        Dtype::kI32, Dtype::kF32, Dtype::kI64, Dtype::kF64}) {
    owners.push_back(std::make_unique<Bytes>(3 * 7 * DtypeSize(dtype)));
    tensors.push_back({"t." + std::string(DtypeName(dtype)),
                       Tensor(owners.back()->data.data(), dtype, Shape{3, 1, 7})});
  }
  WriteSafetensors(At("x"), tensors, {{"made", "by \"us\"\n"}});
  SafetensorsFile file(At("x"));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const NamedTensor& named : tensors) {
    const Tensor read = file.Get(named.name);
    EXPECT_EQ(read.dtype(), named.tensor.dtype());
    EXPECT_EQ(read.shape(), named.tensor.shape());
    ASSERT_EQ(read.bytes(), named.tensor.bytes());
    EXPECT_EQ(std::memcmp(read.raw(), named.tensor.raw(), read.bytes()), 0) << named.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read.raw()) % DtypeSize(read.dtype()), 0u);
  }
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"made", "by \"us\"\n"}}));
  EXPECT_EQ(Names(), (Strings{"x"}));
}

TEST_F(SafetensorsTest, DataIsAlignedContiguousAndInOrder) {
  std::vector<float> f(5);
  std::vector<double> d(1);
  std::vector<uint8_t> u(3);
  const SafetensorsFile file = Written({{"u", Tensor(u.data(), Shape{3})},
                                        {"b", Tensor(f.data(), Shape{5})},
                                        {"a", Tensor(f.data(), Shape{5})},
                                        {"d", Tensor(d.data(), Shape{1})}});
  const std::string bytes = ReadFile(At("x"));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ((length + 8) % 64, 0u);
  EXPECT_EQ(bytes.size(), 8 + length + 8 + 20 + 20 + 3);
  EXPECT_EQ(bytes[8], '{');
  Strings names;
  for (const TensorInfo& info : file.tensors()) names.push_back(info.name);
  EXPECT_EQ(names, (Strings{"d", "a", "b", "u"}));
}

TEST_F(SafetensorsTest, ScalarsAndEmptyTensorsAndNoTensors) {
  float scalar = 2.5f;
  SafetensorsFile file = Written({{"scalar", Tensor(&scalar, Shape{})},
                                  {"empty", Tensor(&scalar, Shape{3, 0, 5})},
                                  {"also empty", Tensor(&scalar, Shape{0})}});
  EXPECT_EQ(file.ReadAs<float>("scalar"), (std::vector<float>{2.5f}));
  EXPECT_EQ(file.Require("scalar").shape.rank(), 0);
  EXPECT_TRUE(file.ReadAs<float>("empty").empty());
  EXPECT_EQ(file.Get("empty").shape(), (Shape{3, 0, 5}));
  EXPECT_TRUE(Written({}).tensors().empty());
}

TEST_F(SafetensorsTest, NanAndInfinityAreKept) {
  std::vector<float> values = {std::numeric_limits<float>::quiet_NaN(),
                               -std::numeric_limits<float>::infinity(), -0.0f, 1e-45f};
  const auto read = Written({{"v", Tensor(values.data(), Shape{4})}}).ReadAs<float>("v");
  EXPECT_EQ(std::memcmp(read.data(), values.data(), 16), 0);
}

TEST_F(SafetensorsTest, ForeignOrderPaddingAndMisalignedDataAreRead) {
  // One byte of U8 first: the float behind it lies at an odd place. Spaces end the header.
  const float value = -1.25f;
  std::string data(1, '\x07');
  data.append(reinterpret_cast<const char*>(&value), 4);
  SafetensorsFile file = Opened(R"({"f":{"data_offsets":[1,5],"shape":[1],"dtype":"F32"},)"
                                R"("u":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}}   )",
                                data);
  EXPECT_FALSE(IsAligned(file.Require("f")));
  EXPECT_EQ(file.ReadAs<float>("f"), (std::vector<float>{value}));
  EXPECT_EQ(file.ReadAs<double>("f"), (std::vector<double>{-1.25}));
  const Tensor f = file.Get("f");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(f.raw()) % 4, 0u);
  EXPECT_EQ(f.data<float>()[0], value);
  EXPECT_EQ(file.Get("f").raw(), f.raw());  // one copy, however often
  EXPECT_EQ(file.ReadAs<int64_t>("u"), (std::vector<int64_t>{7}));
  EXPECT_TRUE(file.metadata().empty());
}

TEST_F(SafetensorsTest, ReadRefusesTheWrongKindAndNumbersThatDoNotFit) {
  int64_t wide[2] = {1, int64_t{1} << 40};
  float f = 1;
  const SafetensorsFile file =
      Written({{"wide", Tensor(wide, Shape{2})}, {"f", Tensor(&f, Shape{1})}});
  EXPECT_EQ(file.ReadAs<int64_t>("wide"), (std::vector<int64_t>{1, int64_t{1} << 40}));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.ReadAs<int32_t>("wide"); }), "\"wide\"", "element 1"));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.ReadAs<float>("wide"); }), "I64"));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.ReadAs<int64_t>("f"); }), "F32"));
}

TEST_F(SafetensorsTest, RequireNamesWhatIsMissingOrMisshapen) {
  float f[6] = {};
  const SafetensorsFile file = Written({{"wte.weight", Tensor(f, Shape{2, 3})}});
  EXPECT_EQ(file.Find("wpe.weigh"), nullptr);
  EXPECT_EQ(&file.Require("wte.weight", Shape{2, 3}), file.Find("wte.weight"));
  const Shape turned{3, 2};
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Require("wte.weight", turned); }),
                       "expected (3, 2), found (2, 3)"));
  const Error error = Refused([&] { file.Require("wpe.weight"); });
  EXPECT_TRUE(Contains(error.what(), "wpe.weight"));
  EXPECT_TRUE(Contains(error.help(), "wte.weight"));
}

TEST_F(SafetensorsTest, BoolsAreCheckedWhenViewed) {
  bool flags[2] = {true, false};
  SafetensorsFile good = Written({{"flags", Tensor(flags, Shape{2})}});
  EXPECT_TRUE(good.Get("flags").data<bool>()[0]);

  SafetensorsFile bad =
      Opened(R"({"b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\x02");
  EXPECT_TRUE(Contains(ErrorOf([&] { bad.Get("b"); }), "BOOL"));
  EXPECT_EQ(bad.ReadAs<int32_t>("b"), (std::vector<int32_t>{1}));
}

TEST_F(SafetensorsTest, AnOpenFileSurvivesItsReplacement) {
  float one = 1, two = 2;
  SafetensorsFile open = Written({{"v", Tensor(&one, Shape{1})}});
  SafetensorsFile replaced = Written({{"v", Tensor(&two, Shape{1})}});
  EXPECT_EQ(open.Get("v").data<float>()[0], 1.0f);
  EXPECT_EQ(replaced.Get("v").data<float>()[0], 2.0f);
}

}  // namespace
}  // namespace folio
