#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"

namespace folio {

struct BpeTrainerOptions {
  int64_t vocab_size = 32000;  // including the 256 bytes and the special tokens
  SplitPattern pattern = SplitPattern::kGpt2;
  std::vector<std::string> specials = {"<|endoftext|>"};
  // Special tokens get the first ids, as in Hugging Face's trainer; else the last, as in GPT-2.
  bool specials_first = false;
  // Initial ids: GPT-2's order of bytes (the printable ones first), or the byte itself.
  enum class Bytes { kGpt2, kRaw } bytes = Bytes::kGpt2;
  int64_t min_count = 1;  // pairs that occur less often are not merged
};

// Counts pretokens of text, then makes a vocabulary of the most frequent pairs (byte-pair encoding:
// P. Gage, "A New Algorithm for Data Compression", 1994; R. Sennrich, B. Haddow, A. Birch, "Neural
// Machine Translation of Rare Words with Subword Units", ACL 2016). Each step merges the pair with
// the highest count; among equal counts the one with the smallest pair of ids (left first), as
// Hugging Face's trainer does. All occurrences of a pair count, overlapping ones too ("aaa" has
// two), and are merged from left to right. A pair that would make a special token's text is not
// merged. The result does not depend on the number of threads or the order of the texts; memory is
// bounded by the distinct pretokens.
class BpeTrainer {
 public:
  // Throws a kUsage Error if vocab_size is too small for the bytes and the special tokens or too
  // large, if a special token is empty, a single byte or repeated, or if min_count is below 1.
  explicit BpeTrainer(const BpeTrainerOptions& options);
  ~BpeTrainer();

  // Counts the pretokens of one whole document, or of a part of one that begins and ends where
  // FindCut says; uses all threads. REQUIRES: Train was not called.
  void AddText(std::string_view text);
  // Called with the number of finished merges and their total. May throw to stop.
  using Progress = std::function<void(int64_t done, int64_t total)>;
  // Makes fewer merges if no pair is left; special tokens that come last then follow the last
  // merge. Throws a kResource Error if the distinct pretokens have 4 GiB or more. Call once, at the
  // end.
  BpeVocab Train(const Progress& progress = {});

  int64_t pretokens() const;           // counted so far, with repetitions
  int64_t distinct_pretokens() const;  // known once Train has begun to merge
  int64_t tokens() const;              // in all texts with the new vocabulary; valid after Train

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace folio
