#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_names.h"

namespace folio {

// A vocabulary for tests: the bytes in GPT-2's order, then what each pair of tokens makes. Special
// tokens are last or, as trainers put them, first.
inline BpeVocab MakeTestVocab(
    std::initializer_list<std::pair<std::string_view, std::string_view>> pairs,
    std::initializer_list<std::string_view> specials, bool specials_first = false) {
  BpeVocab vocab;
  const auto add_specials = [&] {
    for (const std::string_view text : specials) {
      vocab.specials.push_back({std::string(text), static_cast<int32_t>(vocab.tokens.size())});
      vocab.tokens.Add(text);
    }
  };
  const auto find = [&](std::string_view bytes) {
    for (size_t id = 0; id < vocab.tokens.size(); ++id) {
      if (vocab.tokens[id] == bytes) return static_cast<int32_t>(id);
    }
    FOLIO_CHECK(false, "a pair of the test names no token");
  };
  if (specials_first) add_specials();
  for (const uint8_t byte : Gpt2ByteOrder()) {
    const char c = static_cast<char>(byte);
    vocab.tokens.Add({&c, 1});
  }
  for (const auto& [left, right] : pairs) {
    vocab.merges.push_back({find(left), find(right), static_cast<int32_t>(vocab.tokens.size())});
    vocab.tokens.Add(std::string(left).append(right));
  }
  if (!specials_first) add_specials();
  return vocab;
}

// Words, spaces, a line break, a quotation mark, a backslash, parts of characters.
inline BpeVocab SmallVocab(bool specials_first = false) {
  return MakeTestVocab({{"h", "e"},
                        {"l", "l"},
                        {"he", "ll"},
                        {"hell", "o"},
                        {" ", "w"},
                        {"o", "r"},
                        {" w", "or"},
                        {" ", " "},
                        {"\n", "\n"},
                        {"\"", "\\"},
                        {"\xC3", "\xA9"},
                        {"\xE6", "\x97"},
                        {"\xE6\x97", "\xA5"},
                        {std::string_view("\0", 1), "\xAD"}},
                       {"<|endoftext|>", "<|\"caf\xC3\xA9\" \n|>"}, specials_first);
}

}  // namespace folio
