#pragma once

#include <cstdint>

namespace folio {

// A rank's share of each layer under tensor parallelism (M. Shoeybi et al., Megatron-LM,
// arXiv:1909.08053): the shard has some of the heads, of the columns of c_fc and of the tokens of
// the vocabulary, and all of the rest.
struct Shard {
  int64_t index = 0, count = 1;

  bool whole() const { return count == 1; }
  // The shard has Size(n) of n things, from Begin(n) on.
  int64_t Begin(int64_t n) const { return n * index / count; }
  int64_t Size(int64_t n) const { return n * (index + 1) / count - Begin(n); }
  bool operator==(const Shard&) const = default;
};

}  // namespace folio
