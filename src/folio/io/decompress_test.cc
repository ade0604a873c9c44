#include "folio/io/decompress.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kit/compressed.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

constexpr const char* kAll[] = {"gzip", "bzip2", "xz", "zstd"};

ReadBytes FromString(std::string bytes, size_t most) {
  return [bytes = std::move(bytes), most, at = size_t{0}](std::string& out, size_t wanted) mutable {
    const size_t n = std::min({wanted, most, bytes.size() - at});
    out.append(bytes, at, n);
    at += n;
    return n;
  };
}

// All of a stream, read in pieces, from an input that returns `given` bytes at a time.
std::string Unpacked(const std::string& packed, size_t piece = 1 << 16, size_t given = 1 << 20) {
  const auto compression = FindCompression(packed);
  if (!compression) return "not recognised";
  const ReadBytes read = Decompress(FromString(packed, given), *compression, "some.file");
  std::string out;
  for (;;) {
    const size_t before = out.size();
    const size_t got = read(out, piece);
    EXPECT_EQ(out.size() - before, got);
    EXPECT_LE(got, piece);
    if (got == 0) return out;
  }
}

std::string Words(size_t bytes) {
  std::mt19937_64 rng(1);
  std::string text;
  while (text.size() < bytes) text += std::to_string(rng() % 100000) + " ";
  return text;
}

TEST(Decompressing, GivesBackWhatWasPacked) {
  for (const char* how : kAll) {
    EXPECT_EQ(CompressionName(*FindCompression(Compressed("a", how))), how);
    for (const size_t size : {0, 1, 1000, 65536, 150001}) {
      const std::string text = Words(size);
      const std::string packed = Compressed(text, how);
      EXPECT_EQ(Unpacked(packed), text) << how << " " << size;
      if (size > 1000) continue;
      EXPECT_EQ(Unpacked(packed, 1, 1), text) << how << " " << size;
    }
  }
}

TEST(Decompressing, StreamsInARowAreOne) {
  for (const char* how : kAll) {
    const std::string text = Words(1000);
    EXPECT_EQ(Unpacked(Compressed(text, how) + Compressed("and more", how)), text + "and more");
  }
}

// At every length, of one stream and of a second one after it; and with each of its bytes changed.
TEST(Decompressing, DamageIsAnErrorThatNamesTheFile) {
  const std::string text = Words(60);
  for (const char* how : kAll) {
    const std::string packed = Compressed(text, how);
    for (size_t length = 10; length < packed.size(); ++length) {
      EXPECT_TRUE(Contains(ErrorOf([&] { Unpacked(packed.substr(0, length)); }), "some.file",
                           std::string("incomplete ") + how))
          << how << " " << length;
    }
    const std::string two = packed + packed;
    for (size_t length = packed.size() + 1; length < two.size(); length += 3) {
      ErrorOf([&] { Unpacked(two.substr(0, length)); });
    }
    EXPECT_TRUE(Contains(ErrorOf([&] { Unpacked(packed + "other bytes"); }), "some.file")) << how;
  }
}

// Bytes that the format does not check (a time, a name) may change, but the text must be right.
TEST(Decompressing, ChangedBytesNeverGiveAnotherText) {
  // zstd's program adds a checksum, libarchive does not: "one two one two one two\n".
  const std::string zstd(
      "\x28\xB5\x2F\xFD\x04\x58\x7D\0\0\x48one two \n\1\0\xEB\x0A\x17\xEB\xD0\x1E\xEC", 28);
  for (const char* how : kAll) {
    const bool by_program = std::string_view(how) == "zstd";
    const std::string packed = by_program ? zstd : Compressed(Words(300), how);
    const std::string text = Unpacked(packed);
    for (size_t at = 0; at < packed.size(); ++at) {
      std::string changed = packed;
      changed[at] = static_cast<char>(changed[at] ^ 0x10);
      if (!FindCompression(changed)) continue;
      try {
        EXPECT_EQ(Unpacked(changed), text) << how << " " << at;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput);
      }
    }
  }
}

TEST(Decompressing, WhatTheInputThrowsComesThrough) {
  for (const char* how : kAll) {
    const std::string packed = Compressed(Words(60000), how);
    const ReadBytes broken = [&, first = true](std::string& out, size_t) mutable {
      if (!std::exchange(first, false)) throw 7;
      out += packed.substr(0, 1000);
      return size_t{1000};
    };
    const ReadBytes read = Decompress(broken, *FindCompression(packed), "some.file");
    std::string out;
    EXPECT_THROW(while (read(out, 1 << 16) > 0){}, int) << how;
  }
}

TEST(Decompressing, OtherBytesAreNotCompressed) {
  for (const char* text : {"", "BZh", "BZh9 is how bzip2 begins", "\x1F\x8B", "text"}) {
    EXPECT_FALSE(FindCompression(text)) << text;
  }
}

// As `zstd --long=31` writes it: sound, but not readable within the allowed memory.
TEST(Decompressing, ALongWindowIsNoDamage) {
  const std::string head = "\x28\xB5\x2F\xFD";
  const std::string block("\x29\0\0hello", 8);  // the last one, five bytes uncompressed
  const auto told = [&](const std::string& header) {
    return ErrorAndHelp([&] { Unpacked(head + header + block); });
  };
  EXPECT_EQ(Unpacked(head + std::string("\0\x88", 2) + block), "hello") << "128 MiB";
  EXPECT_TRUE(Contains(told(std::string("\0\xA8", 2)),
                       "some.file: the compression window is too large",
                       "it is 2048 MiB, at most 128 MiB", "zstd -dc --long=31"));
  EXPECT_TRUE(Contains(told(std::string("\0\x89", 2)), "it is 144 MiB"));
  // The size of the content, 1 GiB, is that of the window if there is one segment.
  EXPECT_TRUE(Contains(told(std::string("\xA0\0\0\0\x40", 5)), "it is 1024 MiB"));
  EXPECT_TRUE(Contains(told(std::string("\xA1\7\0\0\0\x40", 6)), "it is 1024 MiB"));
}

}  // namespace
}  // namespace folio
