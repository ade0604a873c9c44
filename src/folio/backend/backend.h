#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/backend/ops.h"

namespace folio {

// What runs operations, chosen at run time. Run returns when the operation is done. One thread at a
// time may use a Backend; it spreads the work over Threads() threads itself.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;          // "reference", "cpu"
  virtual std::string description() const = 0;   // for people: instruction set, libraries
  virtual bool Supports(Dtype dtype) const = 0;  // BF16: as the dtype of the operands marked Half
  // The dtype that models train fastest in, of F32 and BF16.
  virtual Dtype PreferredDtype() const = 0;
  // What multiplies matrices of F32 or BF16, for people: "AMX", "AVX3", "reference".
  virtual std::string ProductUnit(Dtype) const { return name(); }

  virtual void Run(const EmbeddingForward&) = 0;
  virtual void Run(const EmbeddingBackward&) = 0;
  virtual void Run(const LayerNormForward&) = 0;
  virtual void Run(const LayerNormBackward&) = 0;
  virtual void Run(const LinearForward&) = 0;
  virtual void Run(const LinearBackward&) = 0;
  virtual void Run(const ActivationForward&) = 0;
  virtual void Run(const ActivationBackward&) = 0;
  virtual void Run(const AttentionForward&) = 0;
  virtual void Run(const AttentionBackward&) = 0;
  virtual void Run(const AttentionScoresForward&) = 0;
  virtual void Run(const AttentionScoresBackward&) = 0;
  virtual void Run(const MaskForward&) = 0;
  virtual void Run(const SoftmaxForward&) = 0;
  virtual void Run(const SoftmaxBackward&) = 0;
  virtual void Run(const NormalizeForward&) = 0;
  virtual void Run(const NormalizeBackward&) = 0;
  virtual void Run(const AttentionContextForward&) = 0;
  virtual void Run(const AttentionContextBackward&) = 0;
  virtual void Run(const ResidualForward&) = 0;
  virtual void Run(const ResidualBackward&) = 0;
  virtual void Run(const CrossEntropyForward&) = 0;
  virtual void Run(const CrossEntropyBackward&) = 0;
  virtual void Run(const AdamWUpdate&) = 0;
  virtual void Run(const SumOfSquares&) = 0;
  virtual void Run(const Fill&) = 0;
};

// "reference" or "cpu", or either decorated: "checked" (cpu beside reference; the first operation
// that differs throws a kRuntime Error naming it) and "timed" (cpu with a table of times). Throws a
// kUsage Error for any other name.
std::unique_ptr<Backend> MakeBackend(const std::string& name);
std::vector<std::string> BackendNames();

std::unique_ptr<Backend> MakeReferenceBackend();
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace folio
