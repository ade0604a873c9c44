#include "folio/base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>

namespace folio {
namespace {

// The published XXH3 128-bit value of the empty string.
TEST(HashHex, EmptyStringHasItsPublishedValue) {
  EXPECT_EQ(HashHex(""), "99aa06d3014798d86001c324468d497f");
}

TEST(HashHex, TellsLengthsAndSingleBytesApart) {
  std::set<std::string> seen;
  for (size_t size : {1u, 3u, 16u, 17u, 128u, 129u, 240u, 241u, 1025u, 100003u}) {
    const std::string zeros(size, '\0');
    seen.insert(HashHex(zeros));
    for (size_t at : {size_t{0}, size / 2, size - 1}) {
      std::string changed = zeros;
      changed[at] = static_cast<char>(at % 250 + 1);
      const std::string hash = HashHex(changed);
      EXPECT_EQ(hash.size(), 32u);
      EXPECT_NE(hash, HashHex(zeros)) << size << " " << at;
      EXPECT_EQ(hash, HashHex(std::string_view("x" + changed).substr(1)));  // misaligned
    }
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST(Hasher, PiecesHashLikeTheWhole) {
  std::string text(100003, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 % 251);
  EXPECT_EQ(Hasher().Hex(), HashHex(""));
  for (const size_t piece : {1u, 7u, 255u, 4096u, 100002u}) {
    Hasher hasher;
    for (size_t at = 0; at < text.size(); at += piece) {
      hasher.Add(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
    }
    EXPECT_EQ(hasher.Hex(), HashHex(text)) << piece;
    EXPECT_EQ(hasher.Hex(), HashHex(text)) << "asked twice";
  }
}

}  // namespace
}  // namespace folio
