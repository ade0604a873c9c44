#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/io/safetensors.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

class MalformedTest : public InTemporaryDirectory {
 protected:
  // A new file each time, not a durable one: file systems flush one that is truncated and written
  // again, and thousands of flushes take a minute.
  void Put(std::string_view bytes) {
    std::filesystem::remove(At("x"));
    std::ofstream(At("x"), std::ios::binary) << bytes;
  }

  std::string Refusal(const std::string& bytes) {
    Put(bytes);
    return ErrorOf([&] { SafetensorsFile(At("x")); });
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
  Put(whole);
  EXPECT_NO_THROW(SafetensorsFile(At("x")));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(Contains(Refusal(whole.substr(0, size)), "x")) << size;
  }
  EXPECT_TRUE(Contains(Refusal(whole + "z"), "15 bytes of data, its tensors take 14"));
}

TEST_F(MalformedTest, HeaderLengthBeyondTheFileOrTheFormat) {
  for (const uint64_t length : {uint64_t{200}, uint64_t{100'000'000}, uint64_t{100'000'001},
                                uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    std::string bytes = SmallSafetensors();
    SetHeaderLength(bytes, length);
    EXPECT_TRUE(Contains(Refusal(bytes), "header of " + std::to_string(length)));
  }
}

// Headers over 16 bytes of data, and a piece of the message that each must give.
TEST_F(MalformedTest, EveryBadHeaderIsRefusedForItsReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not begin with {"},
      {" {}", "does not begin with {"},
      {"[]", "does not begin with {"},
      {"{", "not valid JSON"},
      {"{}", "16 bytes of data, its tensors take 0"},
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
      {Header("16", "16,0"), "do not lie in"},
      {Header("17", "0,17"), "do not lie in the 16"},
      {Header("16", "18446744073709551600,0"), "do not lie"},
      {Header("15", "0,16"), "takes 15 bytes"},
      {R"({"a":{"dtype":"F32","shape":[16],"data_offsets":[0,16]}})", "takes 64 bytes"},
      {Header("8", "8,16"), "the data before it ends at 0"},
      {Header("8", "0,8"), "its tensors take 8"},
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

// Random damage: each file opens or is refused with an Error, and whatever opens can be read.
TEST_F(MalformedTest, RandomDamageNeverDoesMoreThanThrow) {
  const std::string whole = SmallSafetensors();
  constexpr std::array<std::string_view, 12> kPieces = {
      "18446744073709551615", "-1", "0", "[", "]", "{", "}", "\"", ",", "F64", "BOOL", "1e99"};
  int opened = 0, refused = 0;
  for (uint64_t round = 0; round < 4000; ++round) {
    const CounterRng rng(20240607, round);
    std::string bytes = whole;
    const uint64_t changes = 1 + rng.Below(0, 3);
    for (uint64_t change = 0; change < changes; ++change) {
      const uint64_t draw = 1 + change * 4;
      // Mostly in the header, where the damage tells.
      const size_t at = rng.Below(draw, bytes.size());
      switch (rng.Below(draw + 1, 4)) {
        case 0:
          bytes[at] = static_cast<char>(rng.Below(draw + 2, 256));
          break;
        case 1:
          bytes.erase(at, 1 + rng.Below(draw + 2, 9));
          break;
        case 2:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.Below(draw + 2, 8)));
          break;
        default:
          bytes.insert(at, kPieces[rng.Below(draw + 2, kPieces.size())]);
      }
      if (bytes.size() < 8) break;
      if (rng.Below(draw + 3, 2) == 0) {
        // Mend the length, so that the damage reaches the parser behind it.
        SetHeaderLength(bytes, bytes.size() > 22 ? bytes.size() - 22 : 0);
      }
    }
    Put(bytes);
    try {
      SafetensorsFile file(At("x"));
      for (const TensorInfo& info : file.tensors()) {
        try {
          file.Get(info.name);
          file.ReadAs<float>(info.name);
        } catch (const Error&) {
        }
      }
      ++opened;
    } catch (const Error& error) {
      ASSERT_EQ(error.exit_status(), 3);
      ++refused;
    }
  }
  EXPECT_GT(opened, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace folio
