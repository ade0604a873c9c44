#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"
#include "folio/text/split.h"

namespace folio {

// Distinct pretokens, each with how often it occurred.
struct CountedPretokens {
  ByteStrings pretokens;
  std::vector<int64_t> counts;
};

class PretokenTable;

// Counts the pretokens of texts on all threads: each thread has a table of its own, and Take adds
// them up.
class PretokenCounter {
 public:
  explicit PretokenCounter(SplitPattern pattern);
  ~PretokenCounter();

  // A whole document, or a part of one that begins and ends where FindCut says.
  void AddText(std::string_view text);
  // Counted so far, repeated ones too.
  int64_t pretokens() const;
  // Each distinct pretoken in exactly one of the parts, whose order and cut depend on the threads.
  // The counter is empty then.
  std::vector<CountedPretokens> Take();

 private:
  SplitPattern pattern_;
  std::vector<std::unique_ptr<PretokenTable>> tables_;  // by thread
};

}  // namespace folio
