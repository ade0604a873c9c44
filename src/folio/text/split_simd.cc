#include <bit>
#include <cstdint>
#include <cstring>

#include "folio/base/check.h"
#include "folio/text/scan.h"
#include "folio/text/split.h"
#include "folio/text/unicode.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/text/split_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef FOLIO_TEXT_SPLIT_SIMD_ONCE
#define FOLIO_TEXT_SPLIT_SIMD_ONCE
namespace folio {
namespace {

constexpr size_t kBlock = 64;
constexpr size_t kBehind = 3;  // bytes behind a block, of a character that begins in it

// A block of text as sets of bytes, the first one in the lowest bit.
struct Block {
  uint64_t blank;  // U+0020
  uint64_t space;  // White_Space, blank too
  uint64_t letter;
  uint64_t number;
  uint64_t apostrophe;
  uint64_t high;  // bytes of characters beyond ASCII
};

constexpr uint64_t Low(size_t n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// Puts the characters beyond ASCII into the sets. Returns how many bytes of the block are known
// now: all, or up to a white space beyond ASCII. `text` has kBehind bytes behind the block.
inline size_t AddHigh(const char* text, const CharClassTable& table, Block& block) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text);
  uint64_t left = block.high;
  while (left != 0) {
    const auto at = static_cast<size_t>(std::countr_zero(left));
    const scan::Char c = scan::ReadMultiByte(bytes + at, bytes + kBlock + kBehind, table);
    if ((c.set & scan::kSpaces) != 0) return at;
    const uint64_t places = Low(c.length) << at;
    if ((c.set & scan::kLetters) != 0) block.letter |= places;
    if ((c.set & scan::kNumbers) != 0) block.number |= places;
    left &= ~places;
  }
  return kBlock;
}

// Length of the contraction that the apostrophe at `text` begins, or 0.
inline size_t Contraction(const char* text) {
  switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'l':
      return text[2] == 'l' ? 3 : 0;
    case 'r':
    case 'v':
      return text[2] == 'e' ? 3 : 0;
    default:
      return 0;
  }
}

// Returns where pretokens begin in a block that begins with a pretoken, of GPT-2's pattern. Right
// for the bytes from 1 on for which the next byte is known; a contraction needs the next two.
inline uint64_t Gpt2Starts(const char* text, const Block& b, size_t known) {
  const uint64_t other = ~(b.space | b.letter | b.number);
  const uint64_t same =
      (b.letter & b.letter << 1) | (b.number & b.number << 1) | (other & other << 1);
  // The last character of a run of white space goes to what follows or stands alone.
  const uint64_t in_space = b.space & (~(b.space << 1) | ~(b.space >> 1));
  uint64_t starts = in_space | (~b.space & ~(b.blank << 1) & ~same) | 1;
  uint64_t contractions = b.apostrophe & starts & (b.letter >> 1) & Low(known < 2 ? 0 : known - 2);
  while (contractions != 0) {
    const auto at = static_cast<size_t>(std::countr_zero(contractions));
    contractions &= contractions - 1;
    const size_t length = Contraction(text + at);
    if (length == 0) continue;
    starts &= ~(uint64_t{2} << at);
    starts |= uint64_t{1} << at << length;
  }
  return starts;
}

}  // namespace
}  // namespace folio
#endif

HWY_BEFORE_NAMESPACE();
namespace folio::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class M>
HWY_INLINE uint64_t Bits(D d, M mask) {
  unsigned char bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

HWY_INLINE Block Classify(const char* text) {
  const hn::CappedTag<uint8_t, kBlock> d;
  Block b = {};
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + i);
    const auto blank = hn::Eq(v, hn::Set(d, ' '));
    const auto control = hn::Lt(hn::Sub(v, hn::Set(d, '\t')), hn::Set(d, 5));
    const auto lower = hn::Or(v, hn::Set(d, 0x20));
    b.blank |= Bits(d, blank) << i;
    b.space |= Bits(d, hn::Or(blank, control)) << i;
    b.letter |= Bits(d, hn::Lt(hn::Sub(lower, hn::Set(d, 'a')), hn::Set(d, 26))) << i;
    b.number |= Bits(d, hn::Lt(hn::Sub(v, hn::Set(d, '0')), hn::Set(d, 10))) << i;
    b.apostrophe |= Bits(d, hn::Eq(v, hn::Set(d, '\''))) << i;
    b.high |= Bits(d, hn::Gt(v, hn::Set(d, 0x7F))) << i;
  }
  return b;
}

// The places of a block, behind its first, where pretokens begin for certain.
HWY_INLINE uint64_t StartsInBlock(const char* text, const CharClassTable& table) {
  Block block = Classify(text);
  const size_t known = HWY_LIKELY(block.high == 0) ? kBlock : AddHigh(text, table, block);
  return known < 2 ? 0 : Gpt2Starts(text, block, known) & Low(known - 1) & ~uint64_t{1};
}

// SplitPretokens of GPT-2's pattern. Each block begins where a pretoken begins, so that nothing but
// its own bytes decides it.
size_t SplitGpt2(std::string_view text, size_t begin, bool at_end, size_t* ends, size_t capacity) {
  const CharClassTable& table = CharClasses();
  size_t count = 0;
  while (begin < text.size() && count + kBlock <= capacity) {
    const size_t first = begin;
    uint64_t starts = 0;
    if (text.size() - begin >= kBlock + kBehind) {
      starts = StartsInBlock(text.data() + begin, table);
    }
    if (HWY_LIKELY(starts != 0)) {
      do {
        ends[count++] = begin = first + static_cast<size_t>(std::countr_zero(starts));
        starts &= starts - 1;
      } while (starts != 0);
      continue;
    }
    const size_t end = NextPretoken(SplitPattern::kGpt2, text, begin, at_end);
    if (end == kUndecided) break;
    ends[count++] = begin = end;
  }
  return count;
}

}  // namespace folio::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio {

HWY_EXPORT(SplitGpt2);

size_t SplitPretokens(SplitPattern pattern, std::string_view text, size_t begin, bool at_end,
                      std::span<size_t> ends) {
  FOLIO_CHECK(ends.size() >= kMinSplitEnds, "too few ends fit");
  if (pattern == SplitPattern::kGpt2) {
    return HWY_DYNAMIC_DISPATCH(SplitGpt2)(text, begin, at_end, ends.data(), ends.size());
  }
  size_t count = 0;
  while (begin < text.size() && count < ends.size()) {
    const size_t end = NextPretoken(pattern, text, begin, at_end);
    if (end == kUndecided) break;
    ends[count++] = begin = end;
  }
  return count;
}

}  // namespace folio
#endif
