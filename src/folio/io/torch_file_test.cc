#include "folio/io/torch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/io/file.h"
#include "folio/io/test_zip_bytes.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::vector<ZipEntry> Read(const std::string& bytes) {
  return ReadZip(std::as_bytes(std::span(bytes)), "x.zip");
}
std::string Text(const ZipEntry& entry) {
  return {reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()};
}
std::string ZipRefusal(const std::string& bytes) {
  return ErrorAndHelp([&] { Read(bytes); });
}

const ZipFiles kFiles = {{"b", "second"}, {"a/c", "first"}, {"empty", ""}};

std::string Changed(std::string bytes, size_t at, const std::string& to) {
  return bytes.replace(at, to.size(), to);
}
// The offset of the first entry in the list of contents.
size_t ListAt(const std::string& bytes) {
  return bytes.find("PK\x01\x02");
}

TEST(Zip, EntriesAreViewsOfTheFileInTheOrderOfTheirNames) {
  for (const bool big : {false, true}) {
    const std::string bytes = ZipBytes(kFiles, big);
    const auto entries = Read(bytes);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].name, "a/c");
    EXPECT_EQ(Text(entries[0]), "first");
    EXPECT_EQ(Text(entries[1]), "second");
    EXPECT_EQ(reinterpret_cast<const char*>(entries[1].bytes.data()) - bytes.data(), 31);
    EXPECT_EQ(Text(entries[2]), "");
  }
  EXPECT_TRUE(Read(ZipBytes({})).empty());
}

TEST(Zip, ACommentAtTheEndIsNotTheEnd) {
  std::string bytes = ZipBytes(kFiles);
  const std::string comment = "PK\x05\x06 is how it ends, and here is more than an end is long";
  bytes.replace(bytes.size() - 2, 2, Little(comment.size(), 2));
  EXPECT_EQ(Read(bytes + comment).size(), 3u);
}

TEST(Zip, CutShortAtEveryByteIsRefused) {
  for (const bool big : {false, true}) {
    const std::string bytes = ZipBytes(kFiles, big);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_TRUE(Contains(ZipRefusal(bytes.substr(0, size)), "x.zip")) << size;
    }
  }
}

TEST(Zip, CompressedAndEncryptedEntriesAreMarked) {
  const std::string bytes = ZipBytes(kFiles);
  const size_t list = ListAt(bytes);
  EXPECT_FALSE(Read(Changed(bytes, list + 8, Little(1, 2)))[1].plain);
  const std::string compressed = Changed(bytes, list + 10, Little(8, 2));
  EXPECT_TRUE(Contains(ZipRefusal(compressed), "\"b\" has a different compression"));
  const std::string both = Changed(Changed(compressed, 8, Little(8, 2)), list + 24, Little(99, 4));
  const auto entries = Read(both);
  EXPECT_FALSE(entries[1].plain);
  EXPECT_EQ(Text(entries[1]), "second");
  EXPECT_TRUE(entries[0].plain);
}

TEST(Zip, WhatTheListSaysMustBeThere) {
  const std::string bytes = ZipBytes(kFiles);
  const size_t list = ListAt(bytes), end = bytes.size() - 22;
  EXPECT_TRUE(
      Contains(ZipRefusal(ZipBytes({{"a", "1"}, {"a", "2"}})), "the entry \"a\" appears twice"));
  for (const uint64_t offset : {uint64_t{1}, uint64_t{list}, uint64_t{0xFFFFFFFE}}) {
    EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 42, Little(offset, 4))), "entry \"b\""));
  }
  for (const uint64_t size : {uint64_t{list}, uint64_t{0xFFFFFFFE}}) {
    EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 20, Little(size, 4) + Little(size, 4))),
                         "is beyond the end"));
  }
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 24, Little(5, 4))), "two sizes"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 20, Little(40, 4) + Little(40, 4))),
                       "overlaps another"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, 30, "c")), "has a different name"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, 26, Little(0xFFFF, 2))), "has a different name"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, 28, Little(0xFFFF, 2))), "is beyond the end"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list, "X")), "central directory is damaged"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 8, Little(2, 2) + Little(2, 2))),
                       "the wrong length"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 8, Little(0xFFFF, 2) + Little(0xFFFF, 2))),
                       "65535 entries"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 16, Little(0xFFFFFFF0, 4))),
                       "central directory is beyond the end"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 4, Little(1, 2))), "several parts"));
}

TEST(Zip, NumbersOf64BitsDoNotOverflow) {
  const std::string bytes = ZipBytes(kFiles, true);
  const size_t extra = ListAt(bytes) + 46 + 1;
  const size_t end64 = bytes.find("PK\x06\x06");
  for (const uint64_t number : {uint64_t{1} << 60, ~uint64_t{0}, ~uint64_t{0} - 29}) {
    for (const size_t at : {extra + 20, end64 + 40, end64 + 48, bytes.size() - 22 - 12}) {
      ZipRefusal(Changed(bytes, at, Little(number, 8)));
    }
    ZipRefusal(Changed(bytes, extra + 4, Little(number, 8) + Little(number, 8)));
    ZipRefusal(Changed(bytes, end64 + 24, Little(number, 8) + Little(number, 8)));
  }
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, extra, Little(2, 2))), "64-bit sizes"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, extra + 2, Little(16, 2))), "64-bit size"));
}

TEST(Zip, FlippedBytesNeverDoMoreThanThrow) {
  ExpectFlipsReadOrRefused(ZipBytes(kFiles, true), [](const std::string& bytes) {
    for (const ZipEntry& entry : Read(bytes)) EXPECT_LE(entry.bytes.size(), bytes.size());
  });
}

class ZipFile : public InTemporaryDirectory {
 protected:
  std::string Written(const ZipFiles& files, uint64_t see64 = 0xFFFFFFFF) const {
    AtomicFile file(At("x.zip"));
    ZipWriter zip(file, see64);
    for (const auto& [name, bytes] : files) zip.Add(name, std::as_bytes(std::span(bytes)));
    zip.Finish();
    file.Commit();
    return ReadFile(At("x.zip"));
  }
};

TEST_F(ZipFile, WhatIsWrittenIsReadAndAligned) {
  ZipFiles files = kFiles;
  for (size_t i = 0; i < 70; ++i)
    files.emplace_back("n" + std::string(i, 'x'), std::string(i, 'd'));
  std::ranges::sort(files);
  // With 64-bit fields from several sizes and offsets on: for some entries, for all, for none.
  for (const uint64_t see64 : {uint64_t{0xFFFFFFFF}, uint64_t{40}, uint64_t{300}, uint64_t{0}}) {
    const std::string bytes = Written(files, see64);
    const auto entries = Read(bytes);
    ASSERT_EQ(entries.size(), files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(entries[i].name, files[i].first);
      EXPECT_EQ(Text(entries[i]), files[i].second);
      EXPECT_TRUE(entries[i].plain);
      const auto at = reinterpret_cast<const char*>(entries[i].bytes.data()) - bytes.data();
      EXPECT_EQ(at % 64, 0) << files[i].first;
    }
  }
  EXPECT_EQ(Read(Written({})).size(), 0u);
  // zlib.crc32(b"first") in Python.
  EXPECT_NE(Written({{"a", "first"}}).find(Little(0x9271EE57, 4) + Little(5, 4) + Little(5, 4)),
            std::string::npos);
}

using namespace std::string_literals;

// Floats 0, 1, 2 ...
std::string Floats(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class Torch : public InTemporaryDirectory {
 protected:
  TorchFile Open(const std::string& bytes) const { return TorchFile(PutFile("x.pt", bytes)); }
  std::string Refusal(const std::string& bytes) const {
    return ErrorAndHelp([&] { Open(bytes); });
  }
  // The error for a file of one tensor over a storage of 6 floats.
  std::string Refusal(int64_t offset, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides, int64_t count = 6) const {
    return Refusal(TorchBytes(
        PickleDict({{"t", PickleTensor("FloatStorage", "0", count, offset, sizes, strides)}}),
        {Floats(6)}));
  }
};

std::string SmallTorchFile(bool big = false) {
  return TorchBytes(
      PickleDict({{"a", PickleTensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1})},
                  {"turned", PickleTensor("FloatStorage", "0", 6, 0, {3, 2}, {1, 3})},
                  {"inner", PickleDict({{"part", PickleTensor("FloatStorage", "0", 6, 2, {4}, {1})},
                                        {"steps", PickleInt(5)}})},
                  {"ids", PickleTensor("LongStorage", "1", 2, 1, {}, {})}}),
      {Floats(6), Little(7, 8) + Little(8, 8)}, big);
}

TEST_F(Torch, TensorsAreViewsAndTheOthersArePutInOrder) {
  for (const bool big : {false, true}) {
    const TorchFile file = Open(SmallTorchFile(big));
    EXPECT_EQ(file.tensors().size(), 4u);
    EXPECT_EQ(file.ReadAs<float>("a"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(file.ReadAs<float>("turned"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(file.ReadAs<float>("inner/part"), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ(file.ReadAs<int64_t>("ids"), (std::vector<int64_t>{8}));
    EXPECT_EQ(file.Require("a").data + 8, file.Require("inner/part").data);
    EXPECT_EQ(file.values().dump(), R"({"inner":{"steps":5}})");
  }
}

TEST_F(Torch, ShapesThatDoNotLieInTheirStorage) {
  constexpr int64_t kBig = int64_t{1} << 61;
  EXPECT_TRUE(Contains(Refusal(1, {2, 3}, {3, 1}), "tensor \"t\": element 6 of a storage of 6"));
  EXPECT_TRUE(Contains(Refusal(6, {}, {}), "element 6 of"));
  EXPECT_TRUE(Contains(Refusal(0, {2}, {6}), "element 6 of"));
  EXPECT_TRUE(Contains(Refusal(kBig, {1}, {1}), "element"));
  EXPECT_TRUE(Contains(Refusal(INT64_MAX, {2}, {1}), "overflow"));
  EXPECT_TRUE(Contains(Refusal(0, {kBig}, {1}), "overflow"));
  EXPECT_TRUE(Contains(Refusal(0, {kBig, 0}, {1, 1}), "overflow"));
  EXPECT_TRUE(Contains(Refusal(0, {int64_t{1} << 31, int64_t{1} << 31}, {0, 0}), "overflow"));
  EXPECT_TRUE(Contains(Refusal(0, {2, 2}, {INT64_MAX, 1}), "overflow"));
  EXPECT_TRUE(Contains(Refusal(-1, {1}, {1}), "not described"));
  EXPECT_TRUE(Contains(Refusal(0, {-1}, {1}), "not a number from 0"));
  EXPECT_TRUE(Contains(Refusal(0, {2}, {-1}), "not a number from 0"));
  EXPECT_TRUE(Contains(Refusal(0, {2}, {}), "not described"));
  EXPECT_TRUE(Contains(Refusal(0, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}), "up to 5"));
  // One number repeated: more memory than the file has.
  EXPECT_TRUE(Contains(Refusal(0, {1 << 28}, {0}), "larger than the file"));
  EXPECT_TRUE(Contains(Refusal(0, {2, 3}, {3, 1}, 7), "24 bytes, not 7 elements"));
  EXPECT_TRUE(Contains(Refusal(0, {2, 3}, {3, 1}, -1), "24 bytes"));
}

TEST_F(Torch, SizesOfOneHaveAnyStride) {
  const TorchFile file = Open(TorchBytes(
      PickleDict({{"t", PickleTensor("FloatStorage", "0", 6, 0, {1, 6}, {INT64_MAX, 1})},
                  {"u", PickleTensor("FloatStorage", "0", 6, 0, {2, 1, 3}, {1, INT64_MAX, 2})},
                  {"none", PickleTensor("FloatStorage", "0", 6, 99, {0, 3}, {1, 1})}}),
      {Floats(6)}));
  EXPECT_EQ(file.ReadAs<float>("t"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.ReadAs<float>("u"), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(file.ReadAs<float>("none").size(), 0u);
}

TEST_F(Torch, WhatATensorIsMadeOfMustBeThere) {
  const auto with = [&](const std::string& tensor) {
    return Refusal(TorchBytes(PickleDict({{"t", tensor}}), {Floats(6)}));
  };
  EXPECT_TRUE(Contains(with(PickleTensor("FloatStorage", "1", 6, 0, {6}, {1})), "x/data/1"));
  EXPECT_TRUE(Contains(with(PickleTensor("FloatStorage", "../../0", 6, 0, {6}, {1})),
                       "there is no entry x/data/../../0"));
  EXPECT_TRUE(Contains(with(PickleTensor("ComplexFloatStorage", "0", 3, 0, {3}, {1})),
                       "tensor \"t\" is of the dtype torch.ComplexFloatStorage", "not supported"));
  EXPECT_TRUE(Contains(with(PickleTensor("QInt8Storage", "0", 3, 0, {3}, {1})),
                       "torch.QInt8Storage", "not allowed"));
  EXPECT_TRUE(Contains(with("ctorch._utils\n_rebuild_tensor_v2\n)R"), "not described"));
  EXPECT_TRUE(Contains(with("ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR"), "no storage"));
  EXPECT_TRUE(Contains(with("ctorch._utils\n_rebuild_tensor_v2\n(NQNNNtR"), "not described"));
  EXPECT_TRUE(Contains(with("ctorch._utils\n_rebuild_parameter\n)R"), "empty parameter"));
  EXPECT_TRUE(Contains(with("ctorch._utils\n_rebuild_parameter\nN\x85R"), "plain value"));
}

TEST_F(Torch, OtherFilesAreRefusedForWhatTheyAre) {
  EXPECT_TRUE(Contains(Refusal("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02"s),
                       "before 1.6", "torch.save(torch.load("));
  EXPECT_TRUE(Contains(
      Refusal(ZipBytes({{"x/data.pkl", WholePickle("}")}, {"x/constants.pkl", WholePickle(")")}})),
      "TorchScript", "state_dict"));
  EXPECT_TRUE(
      Contains(Refusal(ZipBytes({{"x/data.pkl", WholePickle("}")}, {"x/byteorder", "big"}})),
               "byte order is big"));
  for (const char* name : {"x/data.pkl", "x/data/0"}) {
    std::string compressed = SmallTorchFile();
    compressed.replace(compressed.find(name) - 22, 2, Little(8, 2));
    compressed.replace(compressed.rfind(name) - 36, 2, Little(8, 2));
    EXPECT_TRUE(Contains(Refusal(compressed), name, "is compressed", "zip -0"));
  }
  // The bytes of a compressed entry are not mistaken for its contents.
  std::string order = SmallTorchFile();
  order.replace(order.find("x/byteorder") - 22, 2, Little(8, 2));
  order.replace(order.rfind("x/byteorder") - 36, 2, Little(8, 2));
  order.replace(order.find("little"), 6, "LITTLE");
  EXPECT_TRUE(Contains(Refusal(order), "x/byteorder\" is compressed",
                       "the file was packed by another program"));
  std::string secret = SmallTorchFile();
  secret.replace(secret.rfind("x/data.pkl") - 38, 2, Little(1, 2));
  EXPECT_TRUE(Contains(Refusal(secret), "is encrypted", "password"));
  EXPECT_TRUE(Contains(Refusal(ZipBytes({{"arr_0.npy", "..."}})), "not written by torch.save"));
  EXPECT_TRUE(Contains(Refusal(TorchBytes("]", {})), "does not contain a dictionary"));
  EXPECT_TRUE(
      Contains(Refusal(TorchBytes("cos\nsystem\n" + PickleText("rm") + "\x85R", {})), "os.system"));
  EXPECT_TRUE(Contains(Refusal("text"), "not a valid zip file"));
  EXPECT_TRUE(Contains(Refusal(""), "not a valid zip file"));
}

TEST_F(Torch, NamesOfEntriesAreNeverPaths) {
  const TorchFile file = [&] {
    std::string bytes = ZipBytes({{"x/data.pkl", WholePickle("}")},
                                  {"../../escaped", "data"},
                                  {"/tmp/folio-escaped", "data"}});
    return Open(bytes);
  }();
  EXPECT_EQ(Names(), Strings{"x.pt"});
  EXPECT_FALSE(std::filesystem::exists("/tmp/folio-escaped"));
}

TEST_F(Torch, CutShortOrFlippedAnywhereNeverDoesMoreThanThrow) {
  const std::string whole = SmallTorchFile();
  for (size_t size = 0; size < whole.size(); ++size) Refusal(whole.substr(0, size));
  ExpectFlipsReadOrRefused(whole,
                           [&](const std::string& bytes) {
                             const TorchFile file = Open(bytes);
                             for (const TensorInfo& info : file.tensors()) {
                               if (info.dtype == Dtype::kF32) file.ReadAs<float>(info.name);
                             }
                           },
                           {1, 0x80});
}

TEST_F(Torch, WhatIsWrittenIsRead) {
  const auto counting = [](int64_t row, std::span<float> rows) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(3 * row) + float(i);
  };
  const std::vector<TensorToWrite> tensors = {{"a", Dtype::kF32, {2, 3}, counting},
                                              {"b", Dtype::kBF16, {4, 3}, counting},
                                              {"c", Dtype::kF16, {3}, counting}};
  const Json values = {{"args", {{"n", 3}, {"bias", false}}}, {"rate", 0.25}};
  const std::vector<std::pair<std::string, std::string>> same = {{"head", "a"}};
  WriteTorchFile(At("x.pt"), values, "model", tensors, same);
  const TorchFile file(At("x.pt"));
  EXPECT_EQ(file.values()["args"].dump(), values["args"].dump());
  EXPECT_EQ(file.values()["rate"].get<double>(), 0.25);
  EXPECT_EQ(file.Require("model/a", {2, 3}).dtype, Dtype::kF32);
  EXPECT_EQ(file.Require("model/b", {4, 3}).dtype, Dtype::kBF16);
  EXPECT_EQ(file.Require("model/c", {3}).dtype, Dtype::kF16);
  EXPECT_EQ(file.ReadAs<float>("model/a"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.ReadAs<float>("model/b")[11], 11);
  EXPECT_EQ(file.Require("model/head").data, file.Require("model/a").data);
  EXPECT_EQ(file.tensors().size(), 4u);
  // Nothing is written if a number does not fit.
  const std::vector<TensorToWrite> large = {
      {"a", Dtype::kF16, {3}, [](int64_t, std::span<float> rows) {
         std::ranges::fill(rows, 1e9f);
       }}};
  EXPECT_TRUE(Contains(ErrorOf([&] { WriteTorchFile(At("y.pt"), values, "model", large); }),
                       "a cannot be written as F16"));
  EXPECT_FALSE(std::filesystem::exists(At("y.pt")));
}

// The pickle and the storages each have a checksum of their own.
TEST_F(Torch, AFlippedBitIsNoticed) {
  const std::vector<TensorToWrite> tensors = {
      {"a", Dtype::kF32, {2, 3}, [](int64_t, std::span<float> rows) {
         std::ranges::fill(rows, 1.5f);
       }}};
  WriteTorchFile(At("y.pt"), Json{{"rate", 0.25}}, "model", tensors);
  const std::string whole = ReadFile(At("y.pt"));
  TorchFile{At("y.pt")};
  const std::string number = Little(0x3FC00000, 4), key = "rate";
  for (const auto& [part, entry] : {std::pair{number, "data/0\""}, std::pair{key, "data.pkl\""}}) {
    std::string changed = whole;
    const size_t at = changed.find(part);
    ASSERT_NE(at, changed.npos);
    changed[at] = static_cast<char>(changed[at] ^ 4);
    EXPECT_TRUE(Contains(Refusal(changed), "x.pt is damaged", entry, "checksum")) << entry;
  }
}

// As torch.serialization.set_crc32_options(False) leaves them: all are 0.
TEST_F(Torch, WithoutChecksumsNoneIsLookedAt) {
  EXPECT_EQ(Open(SmallTorchFile()).tensors().size(), 4u);
}

}  // namespace
}  // namespace folio
