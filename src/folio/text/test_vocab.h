#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/base64.h"
#include "folio/base/check.h"
#include "folio/base/rng.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/test_texts.h"
#include "folio/text/tokenizer_json.h"

namespace folio {

// Adds a token, an ordinary or a special one, and returns its id.
inline int32_t AddToken(BpeVocab& vocab, std::string_view bytes) {
  vocab.tokens.Add(bytes);
  return static_cast<int32_t>(vocab.tokens.size()) - 1;
}
inline int32_t AddSpecial(BpeVocab& vocab, std::string_view text) {
  const int32_t id = AddToken(vocab, text);
  vocab.specials.push_back({std::string(text), id});
  return id;
}

// Adds the merge of two tokens with its result, whose id it returns.
inline int32_t AddMerge(BpeVocab& vocab, int32_t left, int32_t right) {
  const auto bytes = [&](int32_t id) { return std::string(vocab.tokens[static_cast<size_t>(id)]); };
  const int32_t merged = AddToken(vocab, bytes(left) + bytes(right));
  vocab.merges.push_back({left, right, merged});
  return merged;
}

// The bytes, each its own id.
inline BpeVocab ByteVocab() {
  BpeVocab vocab;
  for (int byte = 0; byte < 256; ++byte) AddToken(vocab, std::string(1, static_cast<char>(byte)));
  return vocab;
}

// The bytes in GPT-2's order, then the result of each merge. Special tokens are last or, as
// trainers put them, first.
inline BpeVocab MakeTestVocab(
    std::initializer_list<std::pair<std::string_view, std::string_view>> pairs,
    std::initializer_list<std::string_view> specials, bool specials_first = false) {
  BpeVocab vocab;
  const auto add_specials = [&] {
    for (const std::string_view text : specials) AddSpecial(vocab, text);
  };
  const auto find = [&](std::string_view bytes) {
    for (size_t id = 0; id < vocab.tokens.size(); ++id) {
      if (vocab.tokens[id] == bytes) return static_cast<int32_t>(id);
    }
    FOLIO_CHECK(false, "a pair of the test names no token");
  };
  if (specials_first) add_specials();
  for (const uint8_t byte : Gpt2ByteOrder()) {
    AddToken(vocab, std::string(1, static_cast<char>(byte)));
  }
  for (const auto& [left, right] : pairs) {
    AddMerge(vocab, find(left), find(right));
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

// The definition: merges the lowest rank among all pairs, leftmost first, repeatedly.
inline std::vector<int32_t> MergedAsDefined(const BpeVocab& vocab, std::string_view pretoken) {
  std::vector<int32_t> ids;
  for (const char& byte : pretoken) {
    int32_t id = 0;
    while (vocab.tokens[static_cast<size_t>(id)] != std::string_view(&byte, 1)) ++id;
    ids.push_back(id);
  }
  for (size_t rank = 0; rank < vocab.merges.size();) {
    const auto& [left, right, merged] = vocab.merges[rank++];
    size_t at = 0;
    while (at + 1 < ids.size() && (ids[at] != left || ids[at + 1] != right)) ++at;
    if (at + 1 >= ids.size()) continue;
    ids[at] = merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
    rank = 0;
  }
  return ids;
}

// A tiktoken file of the size of r50k_base: the bytes, the last one first, and 50,000 pairs of two.
inline const std::string& TiktokenFile() {
  static const std::string text = [] {
    std::string lines;
    for (int rank = 0; rank < 50256; ++rank) {
      const int pair = rank - 256;
      const char bytes[2] = {static_cast<char>(pair >> 8), static_cast<char>(pair & 0xFF)};
      const char one = static_cast<char>(255 - rank);
      lines += Base64(rank < 256 ? std::string_view(&one, 1) : std::string_view(bytes, 2));
      lines += " " + std::to_string(rank) + "\n";
    }
    return lines;
  }();
  return text;
}

inline BpeVocab TrainedOn(std::string_view text, const BpeTrainerOptions& options) {
  BpeTrainer trainer(options);
  trainer.AddText(text);
  return trainer.Train();
}

// A vocabulary trained on random words over few letters, so that merges compete.
inline BpeVocab LearntVocab(uint64_t seed, int64_t tokens,
                            SplitPattern pattern = SplitPattern::kGpt2) {
  TestRng rng(seed);
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    static const std::vector<std::string> kLetters = {"a", "b",  "c",  "ab", "e",
                                                      "ж", "中", "文", "-",  "'s"};
    text += RandomText(kLetters, 1 + rng.Below(9), rng);
    text += i % 7 == 0 ? "\n" : i % 5 == 0 ? "  " : " ";
  }
  return TrainedOn(text, {.vocab_size = tokens, .pattern = pattern});
}

// Adds distinct random words, which no merge makes and which are whole pretokens; returns them.
inline std::vector<std::string> AddWords(BpeVocab& vocab, int count, uint64_t seed) {
  vocab.whole_pretokens = true;
  TestRng rng(seed);
  std::set<std::string> words;
  for (int i = 0; i < count; ++i) {
    std::string word = i % 2 == 0 ? "" : " ";
    for (size_t letters = 4 + rng.Below(20); letters > 0; --letters) {
      word += static_cast<char>('h' + rng.Below(18));
    }
    if (words.insert(word).second) AddToken(vocab, word);
  }
  return {words.begin(), words.end()};
}

// The same with unused ids between the bytes and the rest, so that ids need more than sixteen bits.
inline BpeVocab WideVocab(const BpeVocab& vocab) {
  constexpr int32_t kUnused = 70000;
  const auto moved = [](int32_t id) { return id < 256 ? id : id + kUnused; };
  BpeVocab wide{.pattern = vocab.pattern, .whole_pretokens = vocab.whole_pretokens};
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    for (int32_t i = 0; id == 256 && i < kUnused; ++i) wide.tokens.Add("");
    wide.tokens.Add(vocab.tokens[id]);
  }
  for (const auto& [left, right, merged] : vocab.merges) {
    wide.merges.push_back({moved(left), moved(right), moved(merged)});
  }
  for (const SpecialToken& token : vocab.specials) {
    wide.specials.push_back({token.text, moved(token.id)});
  }
  return wide;
}

// A word, and a vocabulary in which each two neighbours of it merge, the last ones first: the
// tokens at a place depend on everything after it, however far away.
inline std::pair<std::string, BpeVocab> ChainVocab() {
  constexpr size_t kLetters = 52;
  const auto letter = [](size_t i) { return static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26); };
  // All pairs of letters, each once: an Eulerian circuit by C. Hierholzer's method (1873).
  std::string word;
  std::vector<size_t> path = {0};
  std::vector<size_t> next(kLetters);
  while (!path.empty()) {
    const size_t last = path.back();
    if (next[last] < kLetters) {
      path.push_back(next[last]++);
    } else {
      word += letter(last);
      path.pop_back();
    }
  }
  BpeVocab vocab = ByteVocab();
  for (size_t i = word.size() - 1; i > 0; --i) AddMerge(vocab, word[i - 1], word[i]);
  return {word, vocab};
}

// A vocabulary in which nothing can be looked up: tokens that several merges make, merges out of
// order, and tokens that no merge makes or that differ from the encoding of their bytes. No trainer
// makes it, but a file may contain it.
inline BpeVocab ImproperVocab(bool whole_pretokens) {
  BpeVocab vocab = ByteVocab();
  const auto add = [&](std::string_view bytes) { return AddToken(vocab, bytes); };
  const int32_t ab = add("ab"), bc = add("bc"), abc = add("abc"), cab = add("cab"), aa = add("aa"),
                ca = add("ca"), bca = add("bca");
  add("abcabcabcabcabcabcab");
  add("acb");
  vocab.merges = {{'b', 'c', bc}, {ab, 'c', abc}, {'a', 'b', ab}, {'a', bc, abc},
                  {'c', ab, cab}, {'a', 'a', aa}, {'c', 'a', ca}, {'b', ca, bca}};
  vocab.whole_pretokens = whole_pretokens;
  AddSpecial(vocab, "<|endoftext|>");
  return vocab;
}

// The vocabulary of a BPE in the contents of a tokenizer.json.
inline BpeVocab ReadTokenizerJson(const std::string& contents, const std::string& path) {
  return dynamic_cast<const BpeTokenizer&>(*TokenizerFromJson(contents, path)).vocab();
}

}  // namespace folio
