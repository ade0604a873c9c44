#pragma once

#include <string>
#include <string_view>

#include "folio/base/rng.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/tokenizer_properties.h"

namespace folio {

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
  BpeTrainerOptions options;
  options.vocab_size = tokens;
  options.pattern = pattern;
  BpeTrainer trainer(options);
  trainer.AddText(text);
  return trainer.Train();
}

// One in which nothing can be looked up: tokens that several merges make, merges out of order, and
// tokens that no merge makes. As no trainer makes it, but a file may have it.
inline BpeVocab ImproperVocab(bool whole_pieces) {
  BpeVocab vocab;
  for (int byte = 0; byte < 256; ++byte) vocab.tokens.Add(std::string(1, static_cast<char>(byte)));
  const auto add = [&](std::string_view bytes) {
    vocab.tokens.Add(bytes);
    return static_cast<int32_t>(vocab.tokens.size()) - 1;
  };
  const int32_t ab = add("ab"), bc = add("bc"), abc = add("abc"), cab = add("cab"), aa = add("aa");
  add("abcabcabcabcabcabcab");
  add("acb");
  vocab.merges = {{'b', 'c', bc}, {ab, 'c', abc}, {'a', 'b', ab},
                  {'a', bc, abc}, {'c', ab, cab}, {'a', 'a', aa}};
  vocab.whole_pieces = whole_pieces;
  vocab.specials = {{"<|endoftext|>", add("<|endoftext|>")}};
  return vocab;
}

}  // namespace folio
