#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace folio {

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
// on the number of passes alone. Only how fast a text is written depends on what it says.
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
