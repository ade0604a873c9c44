#include "folio/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/model_dir.h"
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

// Memory of any dtype, filled with distinctive bytes.
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
  // One byte of U8 first: the float behind it is at an odd address. Spaces end the header.
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
  EXPECT_EQ(file.Get("f").raw(), f.raw());  // one copy for any number of calls
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

class MalformedTest : public InTemporaryDirectory {
 protected:
  std::string Refusal(const std::string& bytes) const {
    return ErrorOf([&] { SafetensorsFile(PutFile("x", bytes)); });
  }
};

void SetHeaderLength(std::string& bytes, uint64_t length) {
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 255u);
}

// A tensor of bytes in a header, and the header of "a" and perhaps another.
std::string Entry(const std::string& name, const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[)" + offsets +
         "]}";
}
std::string Header(const std::string& shape, const std::string& offsets,
                   const std::string& other = "") {
  return "{" + Entry("a", shape, offsets) + (other.empty() ? "" : "," + other) + "}";
}

std::string SmallSafetensors() {
  return SafetensorsBytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})",
      "0123456789abcd");
}

TEST_F(MalformedTest, CutShortAtEveryByte) {
  const std::string whole = SmallSafetensors();
  EXPECT_NO_THROW(SafetensorsFile(PutFile("x", whole)));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(Contains(Refusal(whole.substr(0, size)), "x")) << size;
  }
  EXPECT_TRUE(Contains(Refusal(whole + "z"), "15 bytes of data, the tensors need 14"));
}

TEST_F(MalformedTest, HeaderLengthBeyondTheFileOrTheFormat) {
  for (const uint64_t length : {uint64_t{200}, uint64_t{100'000'000}, uint64_t{100'000'001},
                                uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    std::string bytes = SmallSafetensors();
    SetHeaderLength(bytes, length);
    EXPECT_TRUE(Contains(Refusal(bytes), "header of " + std::to_string(length)));
  }
}

// Headers for 16 bytes of data, and a part of the message that each must cause.
TEST_F(MalformedTest, EveryBadHeaderIsRefusedForItsReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not begin with {"},
      {" {}", "does not begin with {"},
      {"[]", "does not begin with {"},
      {"{", "not valid JSON"},
      {"{}", "16 bytes of data, the tensors need 0"},
      {"{}x", "not valid JSON"},
      {"{\"\xff\":1}", "not valid JSON"},
      {R"({"a":1})", "not an object"},
      {R"({"a":null})", "not an object"},
      {R"({"__metadata__":[]})", "__metadata__ is not an object"},
      {R"({"__metadata__":{"a":1}})", "\"a\" is not a string"},
      {R"({"__metadata__":{},"__metadata__":{}})", "appears twice"},
      {R"({"a":{"shape":[16],"data_offsets":[0,16]}})", "no dtype"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,16]}})", "no shape"},
      {R"({"a":{"dtype":"U8","shape":[16]}})", "no data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16],"strides":[1]}})", "fields other"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[16],"data_offsets":[0,16]}})", "appears twice"},
      {R"({"a":{"dtype":1,"shape":[16],"data_offsets":[0,16]}})", "not a string"},
      {R"({"a":{"dtype":"u8","shape":[16],"data_offsets":[0,16]}})", "u8 is unknown"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16]}})", "not supported"},
      {R"({"a":{"dtype":"U64","shape":[2],"data_offsets":[0,16]}})", "not supported"},
      {R"({"a":{"dtype":"U8","shape":16,"data_offsets":[0,16]}})", "shape is not an array"},
      {Header("-16", "0,16"), "-16 in its shape"},
      {Header("16.0", "0,16"), "16.0 in its shape"},
      {Header(R"("16")", "0,16"), "in its shape"},
      {Header("1,1,1,1,1,16", "0,16"), "6 dimensions"},
      {Header("18446744073709551615", "0,16"), "overflow"},
      {Header("18446744073709551616", "0,16"), "shape"},
      {Header("9223372036854775808", "0,16"), "overflow"},
      {R"({"a":{"dtype":"F32","shape":[2305843009213693956],"data_offsets":[0,16]}})", "overflow"},
      {Header("4294967296,4294967296", "0,0"), "overflow"},
      {Header("4294967296,4294967296,0", "0,0"), "overflow"},
      {Header("16", "0,16,16"), "not two offsets"},
      {Header("16", "16"), "not two offsets"},
      {R"({"a":{"dtype":"U8","shape":[16],"data_offsets":{"0":0,"1":16}}})", "not two offsets"},
      {Header("16", "-0,16"), "not two offsets"},
      {Header("16", "0,16.0"), "not two offsets"},
      {Header("16", "16,0"), "exceed the"},
      {Header("17", "0,17"), "exceed the 16"},
      {Header("16", "18446744073709551600,0"), "exceed the"},
      {Header("15", "0,16"), "takes 15 bytes"},
      {R"({"a":{"dtype":"F32","shape":[16],"data_offsets":[0,16]}})", "takes 64 bytes"},
      {Header("8", "8,16"), "the data before it ends at 0"},
      {Header("8", "0,8"), "the tensors need 8"},
      {Header("9", "0,9", Entry("b", "8", "8,16")), "the data before it ends at 9"},
      {Header("7", "0,7", Entry("b", "8", "8,16")), "the data before it ends at 7"},
      {Header("16", "0,16", Entry("b", "16", "0,16")), "the data before it ends at 16"},
      {Header("0", "8,8", Entry("b", "16", "0,16")), "the data before it ends at"},
      {Header("16", "0,16", Entry("a", "16", "0,16")), "appears twice"},
  };
  for (const auto& [header, reason] : cases) {
    EXPECT_TRUE(Contains(Refusal(SafetensorsBytes(header, std::string(16, 'd'))), reason))
        << header;
  }
  const std::string deep = std::string(100000, '[');
  EXPECT_TRUE(Contains(Refusal(SafetensorsBytes("{\"a\":" + deep, "")), "deeper"));
}

TEST_F(MalformedTest, FlippedBytesAreReadOrRefused) {
  ExpectFlipsReadOrRefused(SmallSafetensors(), [&](const std::string& bytes) {
    SafetensorsFile file(PutFile("x", bytes));
    for (const TensorInfo& info : file.tensors()) {
      file.Get(info.name);
      file.ReadAs<float>(info.name);
    }
  });
}

constexpr char kOne[] = "model-00001-of-00002.safetensors";
constexpr char kTwo[] = "model-00002-of-00002.safetensors";

class Shards : public InTemporaryDirectory {
 protected:
  // A shard of one tensor of bytes.
  void PutShard(const std::string& name, const std::string& tensor, const std::string& data) {
    const std::string size = std::to_string(data.size());
    PutFile(name, SafetensorsBytes("{\"" + tensor + R"(":{"dtype":"U8","shape":[)" + size +
                                       R"(],"data_offsets":[0,)" + size + "]}}",
                                   data));
  }
  void PutIndex(const std::string& weight_map) {
    PutFile(kWeightsIndexFile,
            R"({"metadata": {"total_size": 7}, "weight_map": )" + weight_map + "}");
  }
  // Tensor a is in the first shard, b in the second.
  void PutBoth() {
    PutShard(kOne, "a", "123");
    PutShard(kTwo, "b", "4567");
    PutIndex(std::string(R"({"a": ")") + kOne + R"(", "b": ")" + kTwo + "\"}");
  }
  std::string Refusal() {
    return ErrorOf([&] { ModelShards(At(kWeightsIndexFile)); });
  }
};

TEST_F(Shards, TensorsLieInSeveralFiles) {
  PutBoth();
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const ModelShards file(At(kWeightsIndexFile), loading);
    EXPECT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.ReadAs<int32_t>("a"), (std::vector<int32_t>{'1', '2', '3'}));
    EXPECT_EQ(file.ReadAs<int32_t>("b"), (std::vector<int32_t>{'4', '5', '6', '7'}));
  }
}

TEST_F(Shards, NamesThatLeadElsewhereAreRefused) {
  PutBoth();
  PutShard("c", "c", "1");
  for (const std::string name : {"../x", "/etc/passwd", "sub/x", "..", ".", "", "a\\\\b"}) {
    PutIndex(R"({"a": ")" + name + "\"}");
    EXPECT_TRUE(
        Contains(Refusal(), kWeightsIndexFile, "is not the name of a file in its directory"))
        << name;
  }
  PutIndex(R"({"a": "x\u0000y"})");
  EXPECT_TRUE(Contains(Refusal(), "is not the name of a file"));
}

TEST_F(Shards, AnIndexIsNoShard) {
  PutIndex(std::string(R"({"a": ")") + kWeightsIndexFile + "\"}");
  EXPECT_TRUE(Contains(Refusal(), kWeightsIndexFile, "a text file, not a model"));
  std::filesystem::create_directory(At("dir"));
  PutIndex(R"({"a": "dir"})");
  EXPECT_TRUE(Contains(Refusal(), "dir"));
}

TEST_F(Shards, EveryTensorIsWhereTheIndexSaysAndNowhereElse) {
  PutBoth();
  std::filesystem::remove(At(kTwo));
  EXPECT_TRUE(Contains(Refusal(), kTwo, "is missing"));
  PutShard(kTwo, "a", "4567");
  EXPECT_TRUE(Contains(Refusal(), "\"a\"", kOne, kTwo, "contains it, too"));
  PutShard(kTwo, "c", "4567");
  EXPECT_TRUE(Contains(Refusal(), "tensor \"c\"", "is not listed"));
  PutBoth();
  PutIndex(std::string(R"({"a": ")") + kOne + R"(", "b": ")" + kTwo + R"(", "c": ")" + kTwo +
           "\"}");
  EXPECT_TRUE(Contains(Refusal(), "tensor \"c\"", "is not in", kTwo));
}

TEST_F(Shards, AnIndexOfAnotherFormIsRefused) {
  PutBoth();
  for (const char* index :
       {"", "[]", "{", "{}", R"({"weight_map": 3})", R"({"weight_map": ["a"]})",
        R"({"weight_map": {"a": 3}})", R"({"weight_map": {"a": "x"}, "weight_map": {}})",
        R"({"weight_map": {"a": "x", "a": "y"}})", R"({"weight_map": {}} z)"}) {
    PutFile(kWeightsIndexFile, index);
    EXPECT_TRUE(Contains(Refusal(), kWeightsIndexFile)) << index;
  }
  PutFile(kWeightsIndexFile, std::string((size_t{4} << 20) + 1, ' '));
  EXPECT_TRUE(Contains(Refusal(), "at most 4194304"));
}

TEST_F(Shards, CutShortAtEveryByte) {
  PutBoth();
  for (const char* name : {kWeightsIndexFile, kTwo}) {
    PutBoth();
    const std::string whole = FilesBelow(At("")).at(name);
    for (size_t size = 0; size < whole.size(); ++size) {
      PutFile(name, whole.substr(0, size));
      EXPECT_TRUE(Contains(Refusal(), name)) << size;
    }
  }
}

TEST_F(Shards, AreFilledInOrderAndNeverCutATensor) {
  std::vector<float> numbers(30, 1.5f);
  const auto tensor = [&](const char* name, int64_t count) {
    return NamedTensor{name, Tensor(numbers.data(), {count}), Dtype::kBF16};
  };
  const std::vector<NamedTensor> tensors = {tensor("big", 30), tensor("a", 2), tensor("b", 3),
                                            tensor("c", 1)};
  WriteSafetensorsShards(At(""), tensors, 10);
  EXPECT_EQ(Names(),
            (Strings{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                     "model-00003-of-00003.safetensors", kWeightsIndexFile}));
  EXPECT_TRUE(Contains(FilesBelow(At("")).at(kWeightsIndexFile), "\"total_size\": 72",
                       R"("b": "model-00002-of-00003.safetensors")",
                       R"("c": "model-00003-of-00003.safetensors")"));
  const ModelShards file(At(kWeightsIndexFile));
  EXPECT_EQ(file.ReadAs<float>("big"), numbers);
}

TEST_F(Shards, OneFileNeedsNoIndex) {
  std::vector<float> numbers(3, 1);
  WriteSafetensorsShards(At(""), std::vector<NamedTensor>{{"a", Tensor(numbers.data(), {3})}}, 1);
  EXPECT_EQ(Names(), Strings{kWeightsFile});
}

}  // namespace
}  // namespace folio
