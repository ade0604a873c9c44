#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/rng.h"

namespace folio {

// Texts for tests.

// Random draws in sequence.
class TestRng {
 public:
  explicit TestRng(uint64_t seed) : rng_(seed, 0) {}
  size_t Below(size_t n) { return static_cast<size_t>(rng_.Below(next_++, n)); }

 private:
  CounterRng rng_;
  uint64_t next_ = 0;
};

// Returns `count` of `parts`, joined.
inline std::string RandomText(const std::vector<std::string>& parts, size_t count, TestRng& rng) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += parts[rng.Below(parts.size())];
  return text;
}

// Returns at most `most` of `parts`, half of the time from a few of them only, to get runs.
inline std::string RandomRuns(const std::vector<std::string>& parts, size_t most, TestRng& rng) {
  const size_t count = 1 + rng.Below(most);
  if (rng.Below(2) == 0) return RandomText(parts, count, rng);
  std::vector<std::string> few;
  for (size_t i = 1 + rng.Below(6); i > 0; --i) few.push_back(parts[rng.Below(parts.size())]);
  return RandomText(few, count, rng);
}

// `part` repeated up to this many bytes.
inline std::string Repeated(std::string_view part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

// Words, contractions, every kind of space, characters of two to four bytes, bad bytes.
inline const std::vector<std::string>& AwkwardParts() {
  static const std::vector<std::string> parts = [] {
    std::vector<std::string> all = {std::string("\0x", 2), std::string(20, ' '), "<|endoftext|>"};
    for (const size_t length : {37, 46}) all.emplace_back(length, 'w');  // fill most of a block
    for (const char* part :
         {"a",    "e",      "l",      "s",        "x",        "the",      "Word", " ",    " ",
          "  ",   "\n",     "\r\n",   "\t",       "'",        "'s",       "'d",   "'m",   "'t",
          "'v",   "'ll",    "'re",    "'ve",      "1",        "7",        "12",   "2024", ".",
          "...",  "!?",     "-",      "é",        "Ж",        "жжж",      "中",   "中文", "か",
          "かな", "\u00a0", "\u3000", "½",        "٣",        "👍🏽", "’",    "“",    "\u0301",
          "\xff", "\x80",   "\xe4",   "\xe4\xb8", "\xf0\x9f", "<|endof"}) {
      all.emplace_back(part);
    }
    return all;
  }();
  return parts;
}

}  // namespace folio
