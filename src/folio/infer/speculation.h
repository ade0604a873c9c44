#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "folio/model/decoder.h"

namespace folio {

// Proposes the next tokens of a text, so that a model can check several tokens in one pass and keep
// those that it would have chosen itself: speculative decoding (Y. Leviathan et al.,
// arXiv:2211.17192; C. Chen et al., arXiv:2302.01318). Proposals change only the speed of a text.
class Draft {
 public:
  virtual ~Draft() = default;

  // Replaces `ids` by at most `count` tokens, perhaps none, that may follow `text`, which is the
  // prompt and all new tokens. The text need not continue that of the last call.
  virtual void Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) = 0;
};

// Finds the end of the text in the text itself (A. Saxena, "Prompt Lookup Decoding", 2023):
// proposes the tokens after the last earlier occurrence of its last 3 tokens, or else of its last
// 2; a single token has too many possible successors. If these tokens reach the end of the text,
// they are followed by the proposal itself, so that a repeating text is proposed to repeat.
//
// For a text that grows, only its new tokens are read. Another text is read from its beginning,
// unless it has the same tokens where the last one ended; a proposal always follows the same tokens
// in the text.
class NgramDraft final : public Draft {
 public:
  void Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) override;

 private:
  static constexpr size_t kLongest = 3, kShortest = 2;

  using Ngram = std::array<int32_t, kLongest>;  // shorter ones behind -1
  struct Hash {
    size_t operator()(const Ngram& ngram) const;
  };

  static Ngram EndOf(std::span<const int32_t> text, size_t length);
  void Read(std::span<const int32_t> text);

  std::vector<int32_t> read_;                       // tokens whose n-grams are known
  std::unordered_map<Ngram, size_t, Hash> follow_;  // index after the last occurrence of each
};

// Proposes the likeliest tokens of a smaller model, one after the other. The model keeps the keys
// and values of the text that it has read, as far as the next text begins with the same tokens. Of
// a text longer than its context of P tokens it sees the end: when the context is full, it starts
// again with the last P/2. Proposes no more tokens than fit in its context.
class ModelDraft final : public Draft {
 public:
  // `vocab_size` is that of the model for which it proposes, with the same tokens. `backend` and
  // `weights` must outlive it. Throws a kUsage Error if the sizes of the vocabularies differ, and
  // what Decoder throws.
  ModelDraft(Backend& backend, const GptWeights& weights, int64_t vocab_size);

  void Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) override;

 private:
  // Reads ids, and returns the likeliest token behind them.
  int32_t Next(std::span<const int32_t> ids);

  Decoder decoder_;
  CachedSequence sequence_{decoder_.cache()};
  std::vector<int32_t> read_;  // the tokens in the sequence
  size_t begin_ = 0;           // the index of the first in the text
};

// Decides how many tokens a Draft proposes before each pass of a model. If each proposal is
// accepted with probability a as long as those before it were, a pass with k proposals gives 1 + a
// + ... + a^k = (1 - a^(k+1)) / (1 - a) tokens (Y. Leviathan et al., arXiv:2211.17192, 3.1). The k
// with the most tokens per second, or 0, is chosen by measurements:
//   a           the share that was accepted, with decaying weights
//   a pass      the time of a pass of k + 1 rows; without a recent one, interpolated between the
//               nearest known k, and that of the next smaller k if no larger one is known; k is at
//               most twice the largest known one
//   a proposal  the time of one proposal
// Each time is the least of the last few, because disturbances only lengthen them. Some passes have
// no proposals, for comparison; if proposals do not pay, some passes try them. The number of passes
// alone decides when. Its decisions change only the speed of a text.
class Speculation {
 public:
  static constexpr int64_t kMost = 8;

  // Tokens to propose before the next pass, 0 to kMost.
  int64_t Next() const;

  // Records a pass: how many tokens were proposed (perhaps fewer than Next()) and accepted, and the
  // seconds of proposing them and of the pass of proposed + 1 rows. REQUIRES: 0 <= accepted <=
  // proposed <= kMost.
  void Record(int64_t proposed, int64_t accepted, double draft_seconds, double pass_seconds);

 private:
  // The last few measurements of a time.
  class Seconds {
   public:
    void Add(double seconds, int64_t pass);
    int64_t count() const { return count_; }
    int64_t last() const { return last_; }  // the pass of the last measurement
    double least() const;

   private:
    std::array<double, 3> values_ = {};
    int64_t count_ = 0, last_ = 0;
  };

  double Accepted() const;  // a
  bool Known(int64_t proposed) const;
  double PassSeconds(int64_t proposed) const;
  // The best number of proposals, at least `least`.
  int64_t Best(int64_t least) const;

  int64_t passes_ = 0;
  double accepted_ = 0, rejected_ = 0;  // tokens, with decaying weights
  std::array<Seconds, kMost + 1> pass_ = {};
  Seconds proposal_;
  int64_t rest_ = 0;   // passes until proposals are tried again
  int64_t tried_ = 0;  // passes of the current try
};

}  // namespace folio
