#pragma once

#include <cstdint>
#include <string>

#include "folio/inspect/trace.h"
#include "folio/lesson/model_text.h"
#include "folio/lesson/step_values.h"
#include "folio/lesson/walk.h"

namespace folio {

// The way of a text's last token through a model.
struct TokenPath {
  const Trace& trace;
  const ModelTokens& tokens;
  Walk& walk;

  int64_t t() const { return tokens.last(); }
  // The token's row of a point: (1,C) or as wide as the point.
  Tensor Row(TracePoint point, int64_t layer = 0) const;
  // What the feed-forward sublayer of a layer is added to.
  Tensor BeforeMlp(int64_t layer) const;
};

// Rows of channels, one below the other.
StepValues ChannelRows(std::initializer_list<Tensor> rows, std::vector<std::string> labels);

// Adds the steps of one layer; if `brief` without its LayerNorms.
void AddLayerSteps(const TokenPath& path, int64_t layer, bool brief);

}  // namespace folio
