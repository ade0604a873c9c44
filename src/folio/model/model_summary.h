#pragma once

#include <cstdint>
#include <string>

#include "folio/model/params.h"

namespace folio {

// A model at a glance: the sizes and counts that whoever describes it shows.
struct ModelSummary {
  explicit ModelSummary(const ParamTable& table);
  explicit ModelSummary(const GptConfig& config) : ModelSummary(ParamTable(config)) {}

  struct Total {
    int64_t tensors = 0, parameters = 0;
  };

  int64_t layers, heads, kv_heads, head_size, channels;  // of the whole model, as all sizes
  int64_t feed_forward;                                  // F
  int64_t context;                                       // P
  int64_t vocabulary;
  std::string positions, norm, activation;  // as the configuration names them
  bool tied, causal;
  Total decayed, not_decayed;  // by AdamW; of the table

  int64_t tensors() const { return decayed.tensors + not_decayed.tensors; }
  int64_t parameters() const { return decayed.parameters + not_decayed.parameters; }
  int64_t float32_bytes() const { return 4 * parameters(); }
};

}  // namespace folio
