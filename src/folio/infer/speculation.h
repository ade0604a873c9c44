#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "folio/model/decoder.h"

namespace folio {

// Guesses how a text goes on, so that a model can look at several tokens in one pass and keep
// those that it would have chosen itself: speculative decoding (Y. Leviathan et al.,
// arXiv:2211.17192; C. Chen et al., arXiv:2302.01318). Guesses decide how fast a text is written
// and nothing else.
class Draft {
 public:
  virtual ~Draft() = default;

  // Replaces `ids` by tokens that may follow `text`, which is the prompt and all that was written:
  // at most `count` tokens, maybe none. The text need not go on where the last one ended.
  virtual void Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) = 0;
};

// Looks the end of the text up in the text itself (A. Saxena, "Prompt Lookup Decoding", 2023):
// proposes what followed its last 3 tokens where they stood last before, or else its last 2. One
// token alone is followed by too many others. Where what followed reaches the end of the text, it
// goes on with what it proposes, so that a text that goes round in a circle stays in it.
//
// A text that grows costs its new tokens; any other is read again from its beginning, unless it
// agrees with the last one in its last tokens. Even then what is proposed did follow its end.
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

  std::vector<int32_t> read_;                       // whose n-grams are known
  std::unordered_map<Ngram, size_t, Hash> follow_;  // where what followed each last begins
};

// Asks a smaller model for its likeliest tokens, one after the other. It has read the text so far
// and goes on from there; where the text is another than it was, from where they part. Of a text
// that is longer than its context of P tokens it sees the end: when the context is full it begins
// again with the last P/2. It proposes no more tokens than its context has room for.
class ModelDraft final : public Draft {
 public:
  // The draft is for a model with a vocabulary of so many tokens, which are supposed to be the
  // same. `backend` and `weights` must outlive it. Throws a kUsage Error for weights of a
  // vocabulary of another size, and what Decoder throws.
  ModelDraft(Backend& backend, const GptWeights& weights, int64_t vocab_size);

  void Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) override;

 private:
  // Reads ids, and returns the likeliest token behind them.
  int32_t Next(std::span<const int32_t> ids);

  Decoder decoder_;
  CachedSequence sequence_{decoder_.cache()};
  std::vector<int32_t> read_;  // what is in it
  size_t begin_ = 0;           // where that begins in the text
};

// Decides how many tokens a Draft is to propose before each pass of a model, so that it pays. If
// each proposal is accepted with probability a as long as those before it were, a pass with k of
// them gives 1 + a + ... + a^k = (1 - a^(k+1)) / (1 - a) tokens (Y. Leviathan et al.,
// arXiv:2211.17192, 3.1). It takes the k of the most tokens per second, or 0, by what it is told:
//   a          the share that was accepted, of late more than long ago
//   a pass     what one of k + 1 rows took; where none was told of late, between what its
//              neighbours took, and no more than a smaller one if there is no larger one; k is at
//              most twice the largest of which is known, so that it feels its way up
//   a proposal what one took
// Times are the least of the last few, as whatever disturbs them makes them longer. Now and then it
// has a pass without proposals, to compare, and where they do not pay a try with some. When, hangs
// on the number of passes alone. Only the speed of a text depends on its decisions.
class Speculation {
 public:
  static constexpr int64_t kMost = 8;

  // Tokens to propose before the next pass, 0 to kMost.
  int64_t Next() const;

  // Takes the measurements of a pass: how many tokens were proposed (maybe fewer than Next() said)
  // and accepted, and the seconds of proposing them and of the pass of proposed + 1 rows. REQUIRES:
  // 0 <= accepted <= proposed <= kMost.
  void Record(int64_t proposed, int64_t accepted, double draft_seconds, double pass_seconds);

 private:
  // The last few measurements of one thing.
  class Seconds {
   public:
    void Add(double seconds, int64_t pass);
    int64_t count() const { return count_; }
    int64_t last() const { return last_; }  // pass
    double least() const;

   private:
    std::array<double, 3> values_ = {};
    int64_t count_ = 0, last_ = 0;
  };

  double Accepted() const;  // a
  bool Known(int64_t proposed) const;
  double PassSeconds(int64_t proposed) const;
  // The best number of proposals, of those from `least`.
  int64_t Best(int64_t least) const;

  int64_t passes_ = 0;
  double accepted_ = 0, rejected_ = 0;  // tokens, those of long ago less than whole
  std::array<Seconds, kMost + 1> pass_ = {};
  Seconds proposal_;
  int64_t rest_ = 0;   // passes until something is tried
  int64_t tried_ = 0;  // passes since then
};

}  // namespace folio
