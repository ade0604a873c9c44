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

  SamplingOptions options_;  // without what the next lines say
  std::vector<std::string> biases_, banned_, forced_;
  std::optional<int64_t> seed_;
  bool greedy_ = false;
};

}  // namespace folio
