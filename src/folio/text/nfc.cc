#include "folio/text/nfc.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "folio/base/utf8.h"

namespace folio {
namespace {

// Hangul syllables are composed of letters by arithmetic (chapter 3.12 of the Unicode Standard).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

// Traits of a character: its combining class, and whether it never, or not always, occurs in
// composed text.
using Traits = uint16_t;
constexpr Traits kClass = 0xFF, kNever = 0x100, kMaybe = 0x200;

struct Decomposition {
  char32_t code = 0;
  char32_t first = 0;
  char32_t second = 0;  // 0: none
};

struct Composition {
  uint64_t parts = 0;
  char32_t code = 0;
};

constexpr uint64_t Parts(char32_t first, char32_t second) {
  return uint64_t{first} << 21 | second;
}

class NfcTables {
 public:
  NfcTables() {
    pages_.emplace_back();
    char32_t code = 0;
    const std::span<const uint32_t> pairs = NfcPairs();
    for (size_t i = 0; i < pairs.size(); i += 3) {
      code += pairs[i] >> 1;
      decompositions_.push_back({code, pairs[i + 1], pairs[i + 2]});
      if ((pairs[i] & 1) == 0) {
        At(code) |= kNever;
        continue;
      }
      compositions_.push_back({Parts(pairs[i + 1], pairs[i + 2]), code});
      At(pairs[i + 2]) |= kMaybe;
    }
    std::ranges::sort(compositions_, {}, &Composition::parts);
    for (char32_t i = 0; i < kVowelCount; ++i) At(kVowels + i) |= kMaybe;
    for (char32_t i = 1; i < kTailCount; ++i) At(kTails + i) |= kMaybe;
    code = 0;
    const std::span<const uint32_t> runs = NfcRuns();
    for (size_t i = 0; i < runs.size(); i += 3) {
      code += runs[i];
      for (const char32_t end = code + runs[i + 1]; code < end; ++code) {
        At(code) |= static_cast<Traits>(runs[i + 2]);
      }
    }
  }

  // REQUIRES: code below 0x110000.
  Traits Of(char32_t code) const { return pages_[page_of_[code >> 8]][code & 0xFF]; }

  // Appends the full decomposition of the character.
  void Decompose(char32_t code, std::u32string& out) const {
    if (code - kSyllables < kSyllableCount) {
      const char32_t place = code - kSyllables;
      out += static_cast<char32_t>(kLeads + place / (kVowelCount * kTailCount));
      out += static_cast<char32_t>(kVowels + place / kTailCount % kVowelCount);
      if (place % kTailCount != 0) out += static_cast<char32_t>(kTails + place % kTailCount);
      return;
    }
    const auto found = std::ranges::lower_bound(decompositions_, code, {}, &Decomposition::code);
    if (found == decompositions_.end() || found->code != code) {
      out += code;
      return;
    }
    Decompose(found->first, out);
    if (found->second != 0) out += found->second;  // which is made of nothing
  }

  // The composition of two characters, or 0.
  char32_t Compose(char32_t first, char32_t second) const {
    if (first - kLeads < kLeadCount && second - kVowels < kVowelCount) {
      return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
    }
    if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTailCount == 0 &&
        second - kTails - 1 < kTailCount - 1) {
      return first + (second - kTails);
    }
    const uint64_t parts = Parts(first, second);
    const auto found = std::ranges::lower_bound(compositions_, parts, {}, &Composition::parts);
    return found == compositions_.end() || found->parts != parts ? 0 : found->code;
  }

 private:
  Traits& At(char32_t code) {
    uint16_t& page = page_of_[code >> 8];
    if (page == 0) {
      page = static_cast<uint16_t>(pages_.size());
      pages_.emplace_back();
    }
    return pages_[page][code & 0xFF];
  }

  std::array<uint16_t, 0x1100> page_of_ = {};
  std::vector<std::array<Traits, 256>> pages_;  // the first page is for characters without traits
  std::vector<Decomposition> decompositions_;   // by code
  std::vector<Composition> compositions_;       // by parts
};

const NfcTables& Tables() {
  static const NfcTables tables;
  return tables;
}

// Skips ASCII, eight bytes at a time.
size_t SkipAscii(std::string_view text, size_t at) {
  while (text.size() - at >= 8) {
    uint64_t bytes;
    std::memcpy(&bytes, text.data() + at, 8);
    if ((bytes & 0x8080808080808080) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// The end of composed text: before `end`, the place where `next` begins which is not composed, or
// the end of the text.
struct Composed {
  size_t end;
  size_t next;
};

// Scans from `begin`, where a character stays. Returns the end of the text that is certainly
// composed, and of what was examined.
Composed FindComposed(std::string_view text, size_t begin) {
  const NfcTables& tables = Tables();
  size_t boundary = begin;
  Traits last = 0;
  for (size_t at = begin; at < text.size();) {
    const size_t ascii = SkipAscii(text, at);
    if (ascii > at) {
      boundary = ascii - 1;
      at = ascii;
      last = 0;
      continue;
    }
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.status != Utf8Status::kValid) {
      boundary = at += c.length;
      last = 0;
      continue;
    }
    const Traits traits = tables.Of(c.code);
    const Traits combining = traits & kClass;
    if (traits > kClass || (combining != 0 && combining < last)) return {boundary, at};
    if (traits == 0) boundary = at;
    last = combining;
    at += c.length;
  }
  return {text.size(), text.size()};
}

// Appends the composed form of a few characters.
void AppendComposed(std::string_view text, std::u32string& parts, std::string& out) {
  const NfcTables& tables = Tables();
  const auto class_of = [&](char32_t code) { return tables.Of(code) & kClass; };
  parts.clear();
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    tables.Decompose(c.code, parts);
    at += c.length;
  }
  for (auto at = parts.begin(); at != parts.end();) {
    const auto starter = [&](char32_t code) { return class_of(code) == 0; };
    const auto end = std::find_if(at, parts.end(), starter);
    std::stable_sort(at, end, [&](char32_t a, char32_t b) { return class_of(a) < class_of(b); });
    at = std::find_if_not(end, parts.end(), starter);
  }
  size_t count = 0;
  size_t starter = 0;
  int last = 256;  // class of the character before, -1 for a starter; 256: there is no starter
  for (const char32_t code : parts) {
    const int combining = class_of(code);
    const char32_t composed = last < combining ? tables.Compose(parts[starter], code) : 0;
    if (composed != 0) {
      parts[starter] = composed;
      continue;
    }
    if (combining == 0) {
      starter = count;
      last = -1;
    } else if (last != 256) {
      last = combining;
    }
    parts[count++] = code;
  }
  for (size_t i = 0; i < count; ++i) AppendUtf8(parts[i], out);
}

}  // namespace

size_t NfcPrefix(std::string_view text) {
  return FindComposed(text, 0).end;
}

std::string Nfc(std::string_view text) {
  const NfcTables& tables = Tables();
  std::string out;
  out.reserve(text.size());
  std::u32string parts;
  for (size_t at = 0; at < text.size();) {
    const auto [end, next] = FindComposed(text, at);
    out += text.substr(at, end - at);
    at = next;
    while (at < text.size()) {
      const Utf8Char c = DecodeUtf8(text, at);
      if (c.status != Utf8Status::kValid || tables.Of(c.code) == 0) break;
      at += c.length;
    }
    AppendComposed(text.substr(end, at - end), parts, out);
  }
  return out;
}

bool StaysInNfc(char32_t code) {
  return code < 0x110000 && Tables().Of(code) == 0;
}

}  // namespace folio
