#pragma once

#include <cstdint>

namespace folio {

// Stands between a pass and its parameters, layer by layer, where parameters may still arrive while
// the forward already runs, and gradients may leave while the backward still does. Layer -1 is the
// embeddings, n_layer the head with ln_f, where it has parameters of its own.
class LayerGate {
 public:
  virtual ~LayerGate() = default;
  // The forward is about to read a layer's parameters.
  virtual void BeforeForward(int64_t layer) = 0;
  // The backward is about to write gradients of a layer, and they are what they stay. Those of
  // biases and LayerNorms, and of a wte that is the head's too, come to rest with layer -1.
  virtual void BeforeBackward(int64_t layer) = 0;
  virtual void AfterBackward(int64_t layer) = 0;
};

}  // namespace folio
