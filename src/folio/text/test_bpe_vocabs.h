#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/test_texts.h"
#include "folio/text/test_vocab.h"

namespace folio {

inline BpeVocab TrainedOn(std::string_view text, const BpeTrainerOptions& options) {
  BpeTrainer trainer(options);
  trainer.AddText(text);
  return trainer.Train();
}

// A vocabulary learnt from random words over few letters, so that merges compete; for tests.
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

// Adds random words, each once, which no merge makes and which are whole pretokens; returns them.
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

// The same with unused ids between the bytes and the rest, so that sixteen bits do not count them.
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

// A word, and a vocabulary in which each two neighbours of it merge, the last ones first: whatever
// is behind a place decides on what becomes of it, however far it is.
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

// One in which nothing can be looked up: tokens that several merges make, merges out of order, and
// tokens that no merge makes or that their own bytes do not become. As no trainer makes it, but a
// file may have it.
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

}  // namespace folio
