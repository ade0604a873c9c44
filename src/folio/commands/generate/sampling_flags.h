#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/cli/flags.h"
#include "folio/infer/sampler.h"
#include "folio/term/console.h"

namespace folio {

// How the next token is chosen (infer/sampler.h).
class SamplingFlags {
 public:
  void Add(Flags& flags);
  // Those of one value, by the names of their flags: for who changes them later.
  std::vector<Field> Fields();
  // Of a model of V tokens. Draws a seed where none is given, and says which. Throws a kUsage or
  // kInput Error for what does not fit the flag or the model.
  SamplingOptions Options(int64_t V, Console& console);
  // Whether any of them says something.
  bool given() const;

 private:
  std::vector<Field> Penalties();
  std::vector<Field> Choice();
  std::vector<LogitBias> Biases() const;

  double temperature_ = 1, top_p_ = 1, min_p_ = 0, typical_ = 1;
  int64_t top_k_ = 0;
  double repetition_ = 1, presence_ = 0, frequency_ = 0;
  int64_t no_repeat_ngram_ = 0, min_tokens_ = 0;
  std::vector<std::string> biases_, banned_, forced_;
  std::optional<int64_t> seed_;
  bool greedy_ = false;
};

}  // namespace folio
