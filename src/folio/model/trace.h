#pragma once

#include <cstdint>
#include <string_view>

#include "folio/tensor/tensor.h"

namespace folio {

// Places in a pass where its insides can be taken, in the order of a pass with norm_position "pre".
// N rows of the width given. With "post" ln_1 stands behind kMiddle, which is what it is given, and
// ln_2 at the end, where its result is kOutput too.
enum class TracePoint {
  kEmbedded,   // (N,C) token and position embeddings, what the first block sees; layer 0
  kNorm1,      // (N,C) result of ln_1
  kQkv,        // (N,3C) queries, keys and values
  kHeads,      // (N,C) the heads' contexts side by side, before c_proj
  kAttention,  // (N,C) result of the attention sublayer, before it joins the stream
  kMiddle,     // (N,C) the stream after attention
  kNorm2,      // (N,C) result of ln_2
  kUp,         // (N,F) c_fc's result, before the activation
  kActivated,  // (N,F) after it
  kMlp,        // (N,C) result of the feed-forward sublayer, before it joins the stream
  kOutput,     // (N,C) the stream after the block
  kFinal,      // (N,C) result of ln_f; layer 0
};
inline constexpr int kTracePoints = 12;

// "embedded", "ln_1", "qkv" and so on, for people and for keys.
constexpr std::string_view TracePointName(TracePoint point) {
  constexpr std::string_view kNames[kTracePoints] = {"embedded",  "ln_1",   "qkv",    "heads",
                                                     "attention", "middle", "ln_2",   "up",
                                                     "activated", "mlp",    "output", "final"};
  return kNames[static_cast<int>(point)];
}

// Is shown the insides of a pass as they come. A pass without one does nothing for it.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // `x` is overwritten by what comes later: copy what must last.
  virtual void Take(TracePoint point, int64_t layer, const Tensor& x) = 0;
};

}  // namespace folio
