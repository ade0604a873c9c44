#pragma once

#include "folio/backend/backend.h"

namespace folio {

// A Backend whose operations are all one template: Derived has
// `template <class Op> void Apply(const Op& op)`, and each Run calls it.
template <class Derived>
class GenericBackend : public Backend {
 public:
  void Run(const EmbeddingForward& op) final { Forward(op); }
  void Run(const EmbeddingBackward& op) final { Forward(op); }
  void Run(const LayerNormForward& op) final { Forward(op); }
  void Run(const LayerNormBackward& op) final { Forward(op); }
  void Run(const LinearForward& op) final { Forward(op); }
  void Run(const LinearBackward& op) final { Forward(op); }
  void Run(const ActivationForward& op) final { Forward(op); }
  void Run(const ActivationBackward& op) final { Forward(op); }
  void Run(const AttentionForward& op) final { Forward(op); }
  void Run(const AttentionBackward& op) final { Forward(op); }
  void Run(const AttentionScoresForward& op) final { Forward(op); }
  void Run(const AttentionScoresBackward& op) final { Forward(op); }
  void Run(const MaskForward& op) final { Forward(op); }
  void Run(const SoftmaxForward& op) final { Forward(op); }
  void Run(const SoftmaxBackward& op) final { Forward(op); }
  void Run(const NormalizeForward& op) final { Forward(op); }
  void Run(const NormalizeBackward& op) final { Forward(op); }
  void Run(const AttentionContextForward& op) final { Forward(op); }
  void Run(const AttentionContextBackward& op) final { Forward(op); }
  void Run(const ResidualForward& op) final { Forward(op); }
  void Run(const ResidualBackward& op) final { Forward(op); }
  void Run(const CrossEntropyForward& op) final { Forward(op); }
  void Run(const CrossEntropyBackward& op) final { Forward(op); }
  void Run(const AdamWUpdate& op) final { Forward(op); }
  void Run(const SumOfSquares& op) final { Forward(op); }
  void Run(const Fill& op) final { Forward(op); }

 private:
  template <class Op>
  void Forward(const Op& op) {
    static_cast<Derived*>(this)->Apply(op);
  }
};

}  // namespace folio
