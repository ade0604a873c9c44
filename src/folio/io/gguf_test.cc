#include "folio/io/gguf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "folio/io/safetensors.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/gguf_bytes.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

constexpr auto kRaw = [](auto value) { return GgufBytes::Raw(value); };

class Gguf : public InTemporaryDirectory {
 protected:
  std::filesystem::path Put(std::string_view bytes) const { return PutFile("x", bytes); }
  std::string Refusal(const GgufBytes& bytes) const {
    return ErrorAndHelp([&] { GgufFile(Put(bytes.File())); });
  }
};

// Numbers 0, 1, 2 ... times `scale`.
TensorToWrite Counting(std::string name, Dtype dtype, Shape shape, float scale = 1) {
  return {std::move(name), dtype, shape, [shape, scale](int64_t row, std::span<float> out) {
            for (size_t i = 0; i < out.size(); ++i) {
              out[i] = scale * static_cast<float>(row * shape.back() + static_cast<int64_t>(i));
            }
          }};
}

GgufBytes SmallGguf() {
  GgufBytes bytes;
  bytes.String("general.architecture", "none")
      .U32("a.u32", 7)
      .Key("a.f32", 6, kRaw(std::bit_cast<uint32_t>(1e-5f)))
      .Key("a.bool", 7, kRaw(uint8_t{1}))
      .Strings("a.texts", {"x", "", "\xC4\xA0the"})
      .I32s("a.i32s", {1, -1});
  std::string floats;
  for (int i = 0; i < 6; ++i) floats += kRaw(std::bit_cast<uint32_t>(static_cast<float>(i)));
  bytes.Tensor("matrix", {3, 2}, 0, floats);
  bytes.Tensor("halves", {5}, 1, std::string("\0\0\0\x3C\0\x40\0\x42\0\x44", 10));
  return bytes;
}

TEST_F(Gguf, IsWrittenAsTheFormatIsDescribed) {
  GgufHeader header;
  header.AddText("general.architecture", "none");
  header.AddU32("a.u32", 7);
  header.AddF32("a.f32", 1e-5f);
  header.AddBool("a.bool", true);
  header.AddTexts("a.texts", std::vector<std::string>{"x", "", "\xC4\xA0the"});
  header.AddI32s("a.i32s", std::vector<int32_t>{1, -1});
  const std::vector<TensorToWrite> tensors = {Counting("matrix", Dtype::kF32, {2, 3}),
                                              Counting("halves", Dtype::kF16, {5})};
  WriteGguf(At("written"), header, tensors);
  EXPECT_EQ(FilesBelow(At("")).at("written"), SmallGguf().File());
}

TEST_F(Gguf, IsReadAsTheFormatIsDescribed) {
  for (const uint32_t version : {2u, 3u}) {
    for (const size_t alignment : {size_t{32}, size_t{64}, size_t{8}}) {
      GgufBytes bytes;
      bytes.alignment = alignment;
      bytes.version = version;
      bytes.U32("general.alignment", static_cast<uint32_t>(alignment));
      bytes.keys += SmallGguf().keys;
      bytes.key_count += SmallGguf().key_count;
      bytes.Tensor("one", {}, 24, "\x05").Tensor("cube", {2, 1, 1, 3}, 24, "abcdef");
      const GgufFile file(Put(bytes.File()));
      EXPECT_EQ(file.Text("general.architecture"), "none");
      EXPECT_EQ(file.Integer("a.u32"), 7);
      EXPECT_EQ(file.Number("a.f32"), 1e-5) << "the decimal number, not the float's exact value";
      EXPECT_EQ(file.Integer("nothing"), std::nullopt);
      Strings texts;
      EXPECT_TRUE(file.Texts("a.texts", [&](size_t i, std::string_view text) {
        EXPECT_EQ(i, texts.size());
        texts.emplace_back(text);
      }));
      EXPECT_EQ(texts, (Strings{"x", "", "\xC4\xA0the"}));
      std::vector<int64_t> numbers;
      EXPECT_TRUE(file.Integers("a.i32s", [&](size_t, int64_t x) { numbers.push_back(x); }));
      EXPECT_EQ(numbers, (std::vector<int64_t>{1, -1}));
      EXPECT_FALSE(file.Texts("nothing", [](size_t, std::string_view) { FAIL(); }));
      EXPECT_EQ(file.Require("one").shape, Shape());
      EXPECT_EQ(file.Require("cube").shape, (Shape{3, 1, 1, 2}));
      EXPECT_EQ(file.ReadAs<int32_t>("cube").back(), 'f');
    }
  }
}

TEST_F(Gguf, ValuesOfAnotherTypeAreRefusedByTheirKey) {
  GgufBytes bytes = SmallGguf();
  bytes.Key("big", 10, kRaw(UINT64_MAX)).Key("f64", 12, kRaw(std::bit_cast<uint64_t>(0.1)));
  const GgufFile file(Put(bytes.File()));
  EXPECT_EQ(file.Number("f64"), 0.1);
  EXPECT_EQ(file.Number("a.u32"), 7);
  for (const char* key : {"a.f32", "a.bool", "a.texts", "a.i32s", "big", "general.architecture"}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { file.Integer(key); }), key, "is not an integer"));
  }
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Text("a.u32"); }), "a.u32", "is not a text"));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Text("a.texts"); }), "is not a text"));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Number("a.bool"); }), "is not a number"));
  const auto none = [](size_t, auto) { FAIL(); };
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Texts("a.i32s", none); }), "an array of strings"));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Integers("a.u32", none); }), "an array of integers"));
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Integers("a.texts", none); }), "an array of integers"));
}

TEST_F(Gguf, BlocksOfAnyNumberOfRowsComeBack) {
  // Rows of one and of several blocks; more than are written at a time.
  std::vector<TensorToWrite> tensors;
  const auto add = [&](Dtype dtype, const Shape& shape) {
    tensors.push_back(Counting(fmt::format("{}{}", DtypeName(dtype), shape.ToString()), dtype,
                               shape, 1.0f / static_cast<float>(shape.count())));
  };
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    add(dtype, {1, 32});
    add(dtype, {7, 96});
  }
  add(Dtype::kQ8_0, {1031, 1024});
  WriteGguf(At("x"), {}, tensors);
  const GgufFile file(At("x"), Loading::kRead);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    const TensorInfo& info = file.Require(tensor.name, tensor.shape);
    EXPECT_EQ(info.dtype, tensor.dtype);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(info.data) % 32, 0u);
    std::vector<float> whole(static_cast<size_t>(tensor.shape.count()));
    tensor.read(0, whole);
    std::vector<std::byte> expected(info.bytes);
    EXPECT_EQ(EncodeFloats(whole, tensor.dtype, expected.data()), std::nullopt);
    EXPECT_TRUE(std::ranges::equal(expected, std::span(info.data, info.bytes))) << tensor.name;
  }
}

TEST_F(Gguf, BlocksOfOtherProgramsAreReadBitForBit) {
  const GgufFile file(Fixture("gguf-blocks/blocks.gguf"));
  const SafetensorsFile expected(Fixture("gguf-blocks/blocks.safetensors"));
  EXPECT_EQ(file.tensors().size(), 11u);
  for (const TensorInfo& info : file.tensors()) {
    EXPECT_EQ(DtypeName(info.dtype), info.name);
    EXPECT_EQ(info.shape, expected.Require(info.name).shape);
    const auto found = file.ReadAs<float>(info.name), theirs = expected.ReadAs<float>(info.name);
    EXPECT_EQ(std::memcmp(found.data(), theirs.data(), 4 * theirs.size()), 0) << info.name;
    const auto doubles = file.ReadAs<double>(info.name);
    EXPECT_TRUE(std::ranges::equal(doubles, theirs)) << info.name;
  }
}

TEST_F(Gguf, NumbersAreQuantisedByteForByteAsByGgml) {
  const GgufFile file(Fixture("gguf-blocks/quantised.gguf"));
  const auto numbers = file.ReadAs<float>("numbers");
  for (const TensorInfo& info : file.tensors().subspan(1)) {
    std::vector<std::byte> found(info.bytes);
    EXPECT_EQ(EncodeFloats(numbers, info.dtype, found.data()), std::nullopt);
    EXPECT_EQ(std::memcmp(found.data(), info.data, info.bytes), 0) << info.name;
  }
  EXPECT_EQ(file.tensors().size(), 9u);
}

TEST_F(Gguf, ANumberThatDoesNotFitIsNamedAndNothingIsLeft) {
  const std::vector<TensorToWrite> tensors = {Counting("small", Dtype::kF16, {3}),
                                              Counting("large", Dtype::kF16, {9, 7}, 2000)};
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { WriteGguf(At("x"), {}, tensors); }),
                       "large cannot be written as F16", "row 4 ", "bf16"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(Gguf, TypesThatFolioDoesNotHaveAreListed) {
  GgufBytes bytes;
  bytes.Tensor("k", {512, 3}, 17, std::string(3 * 2 * 74, 'k')).Tensor("a", {2}, 24, "ab");
  const GgufFile file(Put(bytes.File()));
  ASSERT_EQ(file.foreign().size(), 1u);
  EXPECT_EQ(file.foreign()[0].type, "IQ2_XS");
  EXPECT_EQ(file.foreign()[0].shape, (Shape{3, 512}));
  EXPECT_EQ(file.foreign()[0].bytes, 444u);
  EXPECT_EQ(file.ReadAs<int32_t>("a"), (std::vector<int32_t>{'a', 'b'}));
}

// --- hostile files

TEST_F(Gguf, CutShortAtEveryByte) {
  std::string whole = SmallGguf().File();
  whole.resize(whole.find_last_not_of('\0') + 1);  // padding behind the last tensor may be missing
  EXPECT_NO_THROW(GgufFile(Put(whole)));
  for (size_t size = 0; size < whole.size(); ++size) {
    Put(std::string_view(whole).substr(0, size));
    EXPECT_TRUE(Contains(ErrorOf([&] { GgufFile(At("x")); }), "x is not a valid GGUF file"))
        << size;
  }
}

TEST_F(Gguf, FlippedBytesAreReadOrRefused) {
  ExpectFlipsReadOrRefused(SmallGguf().File(), [&](const std::string& bytes) {
    const GgufFile file(Put(bytes));
    for (const TensorInfo& info : file.tensors()) {
      if (!IsFloating(info.dtype)) continue;
      EXPECT_EQ(std::ssize(file.ReadAs<float>(info.name)), info.shape.count());
    }
  });
}

TEST_F(Gguf, HostileCountsAreRefusedBeforeAnythingIsMadeOfThem) {
  const uint64_t huge[] = {uint64_t{1} << 60, UINT64_MAX, UINT64_MAX / 8 + 1, 1'000'000'000};
  for (const uint64_t count : huge) {
    GgufBytes bytes = SmallGguf();
    bytes.tensor_count = count;
    EXPECT_TRUE(Contains(Refusal(bytes), "tensors, at most")) << count;
    bytes = SmallGguf();
    bytes.key_count = count;
    EXPECT_TRUE(Contains(Refusal(bytes), "keys, at most")) << count;
    for (const uint32_t type : {0u, 8u, 10u, 12u}) {
      EXPECT_TRUE(Contains(Refusal(GgufBytes().Key("a", 9, kRaw(type) + kRaw(count))),
                           "is not a valid GGUF file"))
          << type;
    }
    EXPECT_TRUE(Contains(Refusal(GgufBytes().Key("a", 8, kRaw(count))), "bytes at"));
    EXPECT_TRUE(Contains(Refusal(GgufBytes().Describe("t", {count, 2}, 0, 0)), "\"t\""));
    EXPECT_TRUE(Contains(Refusal(GgufBytes().Describe("t", {2, count}, 24, 0)), "\"t\""));
    EXPECT_TRUE(Contains(Refusal(GgufBytes().Describe("t", {1, 0, count}, 24, 0)), "size of 0"));
    EXPECT_TRUE(Contains(Refusal(GgufBytes().Describe("t", {4}, 24, count)), "begins at"));
  }
  GgufBytes key;
  key.keys = kRaw(UINT64_MAX) + "key";
  key.key_count = 1;
  EXPECT_TRUE(Contains(Refusal(key), "bytes at"));
}

TEST_F(Gguf, EveryMistakeIsRefusedForItsReason) {
  const std::string byte = "b";
  GgufBytes two;
  two.Tensor("t", {1}, 24, byte).Tensor("t", {1}, 24, byte);
  EXPECT_TRUE(Contains(Refusal(two), "\"t\": appears twice"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().U32("a", 1).U32("a", 1)), "\"a\" appears twice"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().U32("", 1)), "not printable text"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().U32("a\nb", 1)), "not printable text"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().U32("\xff", 1)), "not printable text"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Tensor(std::string(64, 'n'), {1}, 24, byte)),
                       "64 bytes, at most 63"));
  EXPECT_NO_THROW(GgufFile(Put(GgufBytes().Tensor(std::string(63, 'n'), {1}, 24, byte).File())));
  EXPECT_TRUE(
      Contains(Refusal(GgufBytes().Tensor("t", {1, 1, 1, 1, 1}, 24, byte)), "5 dimensions"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Tensor("t", {33}, 8, byte)), "blocks of 32"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Tensor("t", {16, 2}, 2, byte)), "blocks of 32"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Tensor("t", {288, 2}, 14, std::string(420, 'b'))),
                       "rows of 288 numbers do not divide into Q6_K blocks of 256"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Tensor("t", {1}, 99, byte)), "unknown type 99", "F16"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Tensor("t", {1}, 4, byte)), "unknown type 4"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Key("k", 13, byte)), "\"k\"", "unknown type 13"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().Key("k", 9, kRaw(uint32_t{9}))), "array of arrays"));
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 30}) {
    EXPECT_TRUE(Contains(Refusal(GgufBytes().U32("general.alignment", alignment)),
                         "not a valid alignment"));
  }
  EXPECT_TRUE(Contains(Refusal(GgufBytes().String("general.alignment", "32")), "not an integer"));
  // Tensors that overlap, leave a gap, or lie beyond the end.
  for (const uint64_t second : {0u, 1u, 31u, 64u}) {
    GgufBytes bytes;
    bytes.Tensor("a", {1}, 24, byte).Describe("b", {1}, 24, second).data += byte;
    EXPECT_TRUE(Contains(Refusal(bytes), "\"b\": begins at", "expected 32"));
  }
  GgufBytes beyond;
  beyond.Tensor("a", {1}, 24, byte).Describe("b", {33}, 24, 32).data += std::string(32, 'b');
  EXPECT_TRUE(
      Contains(Refusal(beyond), "\"b\": 33 bytes at offset 32 exceed the 64 bytes of data"));
}

TEST_F(Gguf, OtherVersionsAreRefused) {
  for (const uint32_t version : {0u, 1u, 4u}) {
    GgufBytes bytes = SmallGguf();
    bytes.version = version;
    EXPECT_TRUE(Contains(Refusal(bytes), fmt::format("its version is {}", version), "convert"));
  }
  GgufBytes bytes = SmallGguf();
  bytes.version = 3u << 24;
  EXPECT_TRUE(Contains(Refusal(bytes), "big-endian"));
}

// A model in three files, as llama-gguf-split writes them: the first has keys and no tensors.
class GgufInParts : public Gguf {
 protected:
  static GgufBytes Part(uint16_t part, uint16_t parts = 3, int32_t tensors = 3) {
    GgufBytes bytes;
    if (part == 0) bytes.String("general.architecture", "none");
    bytes.Key("split.no", 2, kRaw(part)).Key("split.count", 2, kRaw(parts));
    return bytes.Key("split.tensors.count", 5, kRaw(tensors));
  }
  void PutPart(int number, const GgufBytes& bytes) const {
    PutFile(fmt::format("m-{:05}-of-00003.gguf", number), bytes.File());
  }
  void PutAll() const {
    PutPart(1, Part(0));
    PutPart(2, Part(1).Tensor("a", {2}, 24, "ab"));
    PutPart(3, Part(2).Tensor("b", {1}, 24, "c").Tensor("c", {256}, 18, std::string(98, 0)));
  }
  std::string RefusalOf(int number) const {
    return ErrorAndHelp([&] { GgufFile(At(fmt::format("m-{:05}-of-00003.gguf", number))); });
  }
};

TEST_F(GgufInParts, AnyOfThemOpensAll) {
  PutAll();
  for (const int number : {1, 2, 3}) {
    for (const Loading loading : {Loading::kMap, Loading::kRead}) {
      const GgufFile file(At(fmt::format("m-{:05}-of-00003.gguf", number)), loading);
      EXPECT_EQ(file.Text("general.architecture"), "none") << number;
      EXPECT_EQ(file.ReadAs<int32_t>("a"), (std::vector<int32_t>{'a', 'b'}));
      EXPECT_EQ(file.ReadAs<int32_t>("b"), std::vector<int32_t>{'c'});
      ASSERT_EQ(file.foreign().size(), 1u);
      EXPECT_EQ(file.foreign()[0].name, "c");
    }
  }
}

TEST_F(GgufInParts, AreFoundByTheNameOfOne) {
  PutAll();
  PutFile("n-00001-of-00003.gguf", "");
  PutFile("m-00001-of-00002.gguf", "");
  EXPECT_EQ(GgufParts(At("m-00002-of-00003.gguf")).size(), 3u);
  for (const char* single :
       {"m.gguf", "x-00001-of-00003", "-of-00003.gguf", "00001-of-00003.gguf"}) {
    EXPECT_EQ(GgufParts(At(single)), std::vector{At(single)});
  }
}

TEST_F(GgufInParts, OneOfOneIsAFileLikeOthers) {
  const GgufFile file(Put(Part(0, 1, 1).Tensor("a", {2}, 24, "ab").File()));
  EXPECT_EQ(file.ReadAs<int32_t>("a").size(), 2u);
}

TEST_F(GgufInParts, ThoseThatAreMissingAreNamed) {
  PutAll();
  std::filesystem::remove(At("m-00001-of-00003.gguf"));
  EXPECT_TRUE(Contains(RefusalOf(2), "m-00002-of-00003.gguf: part 2 of 3 of a split model",
                       "m-00001-of-00003.gguf is missing beside it", "into one directory"));
  std::filesystem::remove(At("m-00002-of-00003.gguf"));
  EXPECT_TRUE(
      Contains(RefusalOf(3), "part 3 of 3", "m-00001-of-00003.gguf, m-00002-of-00003.gguf"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { GgufFile(Put(Part(1).File())); }), "part 2 of 3",
                       "does not end with -00002-of-00003.gguf", "original names"));
}

TEST_F(GgufInParts, ThoseThatDoNotBelongTogetherAreRefused) {
  PutAll();
  PutPart(2, Part(1, 4));
  EXPECT_TRUE(
      Contains(RefusalOf(1), "m-00002-of-00003.gguf belongs to another model", "part 2 of 3"));
  PutPart(2, Part(2));
  EXPECT_TRUE(Contains(RefusalOf(1), "m-00002-of-00003.gguf belongs to another model"));
  PutPart(2, Part(1));
  EXPECT_TRUE(Contains(RefusalOf(1), "the parts contain 2 tensors, expected 3"));
  PutPart(2, Part(1).Tensor("b", {1}, 24, "d"));
  EXPECT_TRUE(Contains(RefusalOf(1), "m-00003-of-00003.gguf", "\"b\"", "in another part, too"));
  PutAll();
  PutFile("m-00003-of-00003.gguf", Part(2).Tensor("b", {1}, 24, "c").File().substr(0, 150));
  EXPECT_TRUE(Contains(RefusalOf(1), "m-00003-of-00003.gguf is not a valid GGUF file"));
  PutPart(1, GgufBytes(Part(0)).Key("split.no", 2, kRaw(uint16_t{0})));
  EXPECT_TRUE(Contains(RefusalOf(1), "\"split.no\" appears twice"));
  for (const auto& [no, count] : {std::pair{70000u, 70001u}, std::pair{0u, 4000000000u}}) {
    GgufBytes bytes;
    bytes.U32("split.no", no).U32("split.count", count).U32("split.tensors.count", 1);
    const std::string name = fmt::format("m-{:05}-of-{:05}.gguf", no + 1, count);
    PutFile(name, bytes.File());
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { GgufFile(At(name)); }), "is missing beside it"));
  }
  EXPECT_TRUE(Contains(
      ErrorAndHelp([&] { GgufFile(Put(GgufBytes().U32("split.count", 2).File())); }), "split.no"));
}

}  // namespace
}  // namespace folio
