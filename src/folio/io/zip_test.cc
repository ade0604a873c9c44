#include "folio/io/zip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "folio/base/error.h"
#include "folio/base/rng.h"
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
// Where the list of contents has its first entry.
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
  EXPECT_TRUE(Contains(ZipRefusal(compressed), "\"b\" is compressed in another way"));
  const std::string both = Changed(Changed(compressed, 8, Little(8, 2)), list + 24, Little(99, 4));
  const auto entries = Read(both);
  EXPECT_FALSE(entries[1].plain);
  EXPECT_EQ(Text(entries[1]), "second");
  EXPECT_TRUE(entries[0].plain);
}

TEST(Zip, WhatTheListSaysMustBeThere) {
  const std::string bytes = ZipBytes(kFiles);
  const size_t list = ListAt(bytes), end = bytes.size() - 22;
  EXPECT_TRUE(Contains(ZipRefusal(ZipBytes({{"a", "1"}, {"a", "2"}})), "two entries \"a\""));
  for (const uint64_t offset : {uint64_t{1}, uint64_t{list}, uint64_t{0xFFFFFFFE}}) {
    EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 42, Little(offset, 4))), "entry \"b\""));
  }
  for (const uint64_t size : {uint64_t{list}, uint64_t{0xFFFFFFFE}}) {
    EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 20, Little(size, 4) + Little(size, 4))),
                         "lies behind the end"));
  }
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 24, Little(5, 4))), "two sizes"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list + 20, Little(40, 4) + Little(40, 4))),
                       "overlaps another"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, 30, "c")), "has another name"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, 26, Little(0xFFFF, 2))), "has another name"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, 28, Little(0xFFFF, 2))), "lies behind the end"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, list, "X")), "list of contents is damaged"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 8, Little(2, 2) + Little(2, 2))),
                       "another length than it says"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 8, Little(0xFFFF, 2) + Little(0xFFFF, 2))),
                       "65535 entries"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, end + 16, Little(0xFFFFFFF0, 4))),
                       "list of contents lies behind the end"));
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
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, extra, Little(2, 2))), "sizes of 64 bits"));
  EXPECT_TRUE(Contains(ZipRefusal(Changed(bytes, extra + 2, Little(16, 2))), "of 64 bits"));
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
  // With fields of 64 bits from several sizes and places on: for some entries, for all, for none.
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

}  // namespace
}  // namespace folio
