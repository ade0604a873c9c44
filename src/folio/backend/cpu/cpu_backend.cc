#include <fmt/format.h>

#include "folio/backend/backend.h"
#include "folio/backend/cpu/attention.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/linear.h"
#include "folio/backend/cpu/onednn.h"
#include "folio/base/simd_targets.h"

namespace folio {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("{}, {}", SimdTarget(), cpu::OneDnnDescription());
  }
  bool Supports(Dtype dtype) const override {
    return dtype == Dtype::kF32 || dtype == Dtype::kBF16;
  }
  Dtype PreferredDtype() const override { return Bf16UnitIsFast() ? Dtype::kBF16 : Dtype::kF32; }
  std::string ProductUnit(Dtype dtype) const override {
    return dtype == Dtype::kBF16 ? SimdTarget() : VectorTarget();
  }

  void Run(const EmbeddingForward& op) override { op.Check(), cpu::RunEmbedding(op); }
  void Run(const EmbeddingBackward& op) override { op.Check(), cpu::RunEmbedding(op); }
  void Run(const LayerNormForward& op) override { op.Check(), cpu::RunLayerNorm(op); }
  void Run(const LayerNormBackward& op) override { op.Check(), cpu::RunLayerNorm(op, scratch_); }
  void Run(const LinearForward& op) override {
    op.Check();
    op.x.dtype() == Dtype::kBF16 ? cpu::RunLinearBf16(op, scratch_) : cpu::RunLinear(op);
  }
  void Run(const LinearBackward& op) override {
    op.Check();
    op.d_out.dtype() == Dtype::kBF16 ? cpu::RunLinearBf16(op, scratch_) : cpu::RunLinear(op);
  }
  void Run(const ActivationForward& op) override { op.Check(), cpu::RunActivation(op); }
  void Run(const ActivationBackward& op) override { op.Check(), cpu::RunActivation(op); }
  void Run(const AttentionForward& op) override { op.Check(), cpu::RunAttention(op, scratch_); }
  void Run(const AttentionBackward& op) override { op.Check(), cpu::RunAttention(op, scratch_); }
  void Run(const AttentionScoresForward& op) override { op.Check(), cpu::RunAttentionScores(op); }
  void Run(const AttentionScoresBackward& op) override { op.Check(), cpu::RunAttentionScores(op); }
  void Run(const MaskForward& op) override { op.Check(), cpu::RunMask(op); }
  void Run(const SoftmaxForward& op) override { op.Check(), cpu::RunSoftmax(op); }
  void Run(const SoftmaxBackward& op) override { op.Check(), cpu::RunSoftmax(op); }
  void Run(const NormalizeForward& op) override { op.Check(), cpu::RunNormalize(op); }
  void Run(const NormalizeBackward& op) override { op.Check(), cpu::RunNormalize(op); }
  void Run(const AttentionContextForward& op) override { op.Check(), cpu::RunAttentionContext(op); }
  void Run(const AttentionContextBackward& op) override {
    op.Check(), cpu::RunAttentionContext(op);
  }
  void Run(const ResidualForward& op) override { op.Check(), cpu::RunResidual(op); }
  void Run(const ResidualBackward& op) override { op.Check(), cpu::RunResidual(op); }
  void Run(const CrossEntropyForward& op) override { op.Check(), cpu::RunCrossEntropy(op); }
  void Run(const CrossEntropyBackward& op) override { op.Check(), cpu::RunCrossEntropy(op); }
  void Run(const AdamWUpdate& op) override { op.Check(), cpu::RunAdamW(op); }
  void Run(const SumOfSquares& op) override { op.Check(), cpu::RunSumOfSquares(op, scratch_); }
  void Run(const Fill& op) override { op.Check(), cpu::RunFill(op); }

 private:
  cpu::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace folio
