#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace folio {

// How the next token is chosen. The cuts come in this order:
//   temperature  logits / temperature; 0 takes the likeliest token (of equals the lowest id)
//   top_k        only the k likeliest, and equals of the k-th, stay; 0 for all
//   top_p        of these the likeliest whose probabilities reach p stay, at least one; 1 for all
//                (A. Holtzman et al., arXiv:1904.09751)
struct SamplingOptions {
  double temperature = 1;  // >= 0
  int64_t top_k = 0;       // >= 0
  double top_p = 1;        // (0, 1]
  uint64_t seed = 0;
};

// A token that may come next.
struct Candidate {
  int32_t id = 0;
  float logit = 0;
  double probability = 0;
};

// Chooses tokens. A choice depends on the logits, the options, `sequence` and `position` alone.
class Sampler {
 public:
  // Of `usable`, unless it is empty, only tokens are chosen that are true there.
  explicit Sampler(const SamplingOptions& options, std::vector<bool> usable = {})
      : options_(options), usable_(std::move(usable)) {}

  // One of logits.size() tokens. REQUIRES: there is one that may be chosen, and none is NaN.
  int32_t Sample(std::span<const float> logits, uint64_t sequence, uint64_t position);

  // The tokens that the cuts leave, likeliest first, with probabilities that add up to 1; valid
  // until the next call. For temperature 0 that is one token.
  std::span<const Candidate> Candidates(std::span<const float> logits);

 private:
  SamplingOptions options_;
  std::vector<bool> usable_;
  std::vector<Candidate> candidates_;
};

}  // namespace folio
