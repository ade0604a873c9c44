#include "folio/text/unicode.h"

#include <algorithm>
#include <array>

#include "folio/base/check.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

constexpr size_t kPages = 0x1100;
constexpr size_t kClasses = 9;

// A page for each class whose characters fill whole pages, at the index of the class, and one for
// every page with several classes.
struct Tables {
  std::array<uint8_t, kPages> page_of;
  CharClass pages[256][256];
  CharClassTable view = {page_of.data(), pages};

  Tables();
};

Tables::Tables() {
  const std::span<const uint32_t> ranges = CharClassRanges();
  for (size_t c = 0; c < kClasses; ++c) {
    std::fill_n(pages[c], 256, static_cast<CharClass>(c));
  }
  size_t used = kClasses;
  size_t range = 0;
  const auto end_of = [&](size_t i) {
    return i + 1 < ranges.size() ? ranges[i + 1] >> 4 : uint32_t{0x110000};
  };
  for (size_t page = 0; page < kPages; ++page) {
    const auto begin = static_cast<uint32_t>(page << 8);
    while (end_of(range) <= begin) ++range;
    if (end_of(range) >= begin + 256) {
      page_of[page] = static_cast<uint8_t>(ranges[range] & 0xF);
      continue;
    }
    FOLIO_CHECK(used < 256, "the classes of characters need more than 256 pages");
    page_of[page] = static_cast<uint8_t>(used);
    for (uint32_t from = begin; from < begin + 256; from = end_of(range++)) {
      const uint32_t to = std::min(end_of(range), begin + 256);
      std::fill_n(pages[used] + (from - begin), to - from,
                  static_cast<CharClass>(ranges[range] & 0xF));
    }
    --range;
    ++used;
  }
}

}  // namespace

const CharClassTable& CharClasses() {
  static const Tables tables;
  return tables.view;
}

CharClass ClassOf(char32_t code) {
  if (code >= 0x110000) return CharClass::kOther;
  const CharClassTable& table = CharClasses();
  return table.pages[table.page_of[code >> 8]][code & 0xFF];
}

bool IsSpaceAt(std::string_view text, size_t at) {
  const Utf8Char c = DecodeUtf8(text, at);
  return c.status == Utf8Status::kValid && ClassOf(c.code) == CharClass::kSpace;
}

size_t CharacterBefore(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && !BeginsCharacter(text[begin])) --begin;
  return begin;
}

}  // namespace folio
