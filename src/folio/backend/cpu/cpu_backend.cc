#include "folio/backend/backend.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/base/simd_targets.h"

namespace folio {
namespace {

class CpuBackend final : public GenericBackend<CpuBackend> {
 public:
  std::string name() const override { return "cpu"; }
  std::string description() const override { return SimdTarget(); }
  bool Supports(Dtype dtype) const override {
    return dtype == Dtype::kF32 || dtype == Dtype::kBF16;
  }
  Dtype PreferredDtype() const override { return Bf16UnitIsFast() ? Dtype::kBF16 : Dtype::kF32; }
  std::string ProductUnit(Dtype dtype) const override {
    return dtype == Dtype::kBF16 ? SimdTarget() : VectorTarget();
  }

  template <class Op>
  void Apply(const Op& op) {
    op.Check();
    cpu::Run(op, scratch_);
  }

 private:
  cpu::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace folio
