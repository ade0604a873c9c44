#include "folio/io/tf_bundle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/test_tf_bytes.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

const std::string kSmallData = Little(0x3F800000, 4) + Little(0x40000000, 4) + Little(7, 4);

class Tf : public InTemporaryDirectory {
 protected:
  void Put(const std::string& index) const {
    PutFile("m.index", index);
    PutFile("m.data-00000-of-00001", data_);
  }
  TfBundle Open(const std::string& index) const {
    Put(index);
    return TfBundle(At("m"));
  }
  std::string Refusal(const std::string& index) const {
    Put(index);
    return ErrorAndHelp([&] { TfBundle(At("m")); });
  }
  // The error for a table with the header and one tensor "t".
  std::string Refused(const std::string& entry) const {
    return Refusal(TfTable({TfBlock({{"", kTfHeader}, {"t", entry}})}));
  }

  std::string data_ = kSmallData;
};

std::string SmallTable() {
  return TfTable({TfBlock({{"", kTfHeader}, {"a", TfTensor(1, {1, 2}, 0, 8, kSmallData)}}),
                  TfBlock({{"a/b", TfTensor(3, {}, 8, 4, kSmallData)},
                           {"c", TfTensor(1, {0, 3}, 12, 0, kSmallData)}})});
}

TEST_F(Tf, TensorsOfEveryBlockAreViewsOfTheData) {
  const TfBundle file = Open(SmallTable());
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.ReadAs<float>("a"), (std::vector<float>{1, 2}));
  EXPECT_EQ(file.Require("a").shape, (Shape{1, 2}));
  EXPECT_EQ(file.ReadAs<int32_t>("a/b"), (std::vector<int32_t>{7}));
  EXPECT_EQ(file.ReadAs<float>("c").size(), 0u);
}

TEST_F(Tf, NamesShareTheBeginningOfTheNameBefore) {
  const std::string entry = TfTensor(1, {2}, 0, 8, data_);
  const std::string block = TfVarint(0) + TfVarint(0) + TfVarint(kTfHeader.size()) + kTfHeader +
                            TfVarint(0) + TfVarint(4) + TfVarint(entry.size()) + "h0/w" + entry +
                            TfVarint(1) + TfVarint(3) + TfVarint(entry.size()) + "1/w" + entry +
                            Little(0, 4) + Little(1, 4);
  const TfBundle file = Open(TfTable({block}));
  EXPECT_NE(file.Find("h0/w"), nullptr);
  EXPECT_NE(file.Find("h1/w"), nullptr);
  EXPECT_TRUE(Contains(
      Refusal(TfTable({Replaced(block, TfVarint(1) + TfVarint(3), TfVarint(9) + TfVarint(3))})),
      "a name of 9 and 3 bytes"));
  EXPECT_TRUE(
      Contains(Refusal(TfTable({TfBlock({{"", kTfHeader}, {std::string(300, 'a'), entry}})})),
               "a name of 0 and 300 bytes"));
}

TEST_F(Tf, CutShortAtEveryByteIsRefused) {
  const std::string whole = SmallTable();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(Contains(Refusal(whole.substr(0, size)), "m.index")) << size;
  }
  for (; !data_.empty(); data_.pop_back()) {
    if (data_.size() == 12) continue;
    EXPECT_TRUE(Contains(Refusal(whole), "bytes at byte")) << data_.size();
  }
}

TEST_F(Tf, EveryFlippedByteBeforeTheFooterIsNoticed) {
  const std::string whole = SmallTable();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x11);
    Put(bytes);
    try {
      TfBundle(At("m"));
      EXPECT_GE(at, whole.size() - 48) << at;  // the footer has padding
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  }
}

TEST_F(Tf, EntriesThatDoNotFitTheirDataAreRefused) {
  constexpr uint64_t kBig = uint64_t{1} << 60;
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {4}, 0, 16)), "16 bytes at byte 0 of shard 0"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {2}, 8, 8)), "8 bytes at byte 8"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {2}, ~uint64_t{0}, 8)), "of shard 0"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {2}, 8, ~uint64_t{7})), "of shard 0"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {1}, 0, 8)), "takes 4 bytes, not 8"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {kBig}, 0, 8)), "bytes"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {kBig, 16}, 0, 8)), "overflow"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {kBig, 16, 0}, 0, 0)), "overflow"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {~uint64_t{0}}, 0, 8)), "overflow"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {1, 1, 1, 1, 1, 1}, 0, 4)), "more than 5"));
  EXPECT_TRUE(Contains(Refused(TfTensor(7, {1}, 0, 4)), "type 7"));
  EXPECT_TRUE(Contains(Refused(TfTensor(0, {1}, 0, 4)), "type 0"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {1}, 0, 4) + TfNumber(3, 1)), "shard 1"));
  EXPECT_TRUE(Contains(Refused(TfTensor(1, {1}, 0, 4) + TfBytes(7, "")), "partitioned"));
  EXPECT_TRUE(Contains(Refused(TfNumber(1, 1) + TfBytes(2, TfNumber(3, 1))), "no shape"));
  EXPECT_TRUE(Contains(Refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "64 bits"));
  EXPECT_TRUE(Contains(Refused("\x0b"), "an unknown type"));
  EXPECT_TRUE(Contains(Refused("\x12\x7f"), "127 bytes at byte"));
}

TEST_F(Tf, TablesThatAreNoneAreRefused) {
  const std::string block = TfBlock({{"", kTfHeader}, {"a", TfTensor(1, {2}, 0, 8)}});
  EXPECT_TRUE(Contains(Refusal(TfTable({})), "no entries"));
  EXPECT_TRUE(Contains(Refusal(TfTable({block, block})), "names are not sorted"));
  EXPECT_TRUE(Contains(Refusal(TfTable({TfBlock({{"a", ""}})})), "not the header"));
  EXPECT_TRUE(Contains(Refusal(TfTable({TfBlock({{"", TfNumber(1, 2)}})})), "2 shards"));
  EXPECT_TRUE(
      Contains(Refusal(TfTable({TfBlock({{"", TfNumber(1, 1) + TfNumber(2, 1)}})})), "big-endian"));
  EXPECT_TRUE(Contains(Refusal(TfTable({Little(0, 2)})), "truncated"));
  EXPECT_TRUE(Contains(Refusal(TfTable({Little(~uint64_t{0}, 4)})), "restarts"));
  EXPECT_TRUE(Contains(Refusal(TfSealed(block, '\1') +
                               TfSealed(TfBlock({{"z", TfVarint(0) + TfVarint(block.size())}})) +
                               TfFooter(block.size() + 5, 0)),
                       "m.index"));
  const std::string index = TfBlock({{"z", TfVarint(0) + TfVarint(block.size())}});
  EXPECT_TRUE(Contains(
      Refusal(TfSealed(block, '\1') + TfSealed(index) + TfFooter(block.size() + 5, index.size())),
      "block at byte 0 is compressed"));
  for (const auto& [at, size] : {std::pair{uint64_t{1} << 60, uint64_t{4}},
                                 {0, ~uint64_t{0}},
                                 {~uint64_t{0}, ~uint64_t{0}},
                                 {0, 100000}}) {
    EXPECT_TRUE(Contains(Refusal(TfSealed(block) + TfFooter(at, size)), "a block of"));
  }
  // The same block again, which would be read forever.
  const std::string handle = TfVarint(0) + TfVarint(block.size());
  const std::string twice = TfBlock({{"y", handle}, {"z", handle}});
  EXPECT_TRUE(Contains(
      Refusal(TfSealed(block) + TfSealed(twice) + TfFooter(block.size() + 5, twice.size())),
      "a block of"));
  EXPECT_TRUE(Contains(Refusal(std::string(5 << 20, '\0')), "it has 5242880 bytes"));
}

// Each of the bits of the tensors.
TEST_F(Tf, AFlippedBitOfATensorIsNoticed) {
  for (size_t bit = 0; bit < 8 * kSmallData.size(); ++bit) {
    data_ = kSmallData;
    data_[bit / 8] = static_cast<char>(data_[bit / 8] ^ 1 << bit % 8);
    EXPECT_TRUE(Contains(Refusal(SmallTable()), "m.data-00000-of-00001 is damaged",
                         bit < 64 ? "tensor \"a\"" : "tensor \"a/b\"", "copy or download"))
        << bit;
  }
}

}  // namespace
}  // namespace folio
