#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/cli/command_line.h"
#include "folio/infer/sampler.h"
#include "folio/term/console.h"

namespace folio {

// SamplingFlags say how the next token is chosen (infer/sampler.h).
class SamplingFlags {
 public:
  void Add(Flags& flags);
  // Returns the fields of one value, by the names of their flags, for who changes them later.
  std::vector<Field> Fields();
  // Returns the options for a model of V tokens. Draws a seed where none is given, and says which.
  // Throws a kUsage or kInput Error for what does not fit the flag or the model.
  SamplingOptions Options(int64_t V, Console& console);
  // Returns true where any of the flags is given.
  bool given();

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
