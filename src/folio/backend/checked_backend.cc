#include <fmt/format.h>

#include <utility>

#include "folio/backend/backend.h"
#include "folio/backend/comparison.h"
#include "folio/base/error.h"

namespace folio {
namespace {

class CheckedBackend final : public GenericBackend<CheckedBackend> {
 public:
  CheckedBackend(std::unique_ptr<Backend> fast, std::unique_ptr<Backend> trusted)
      : fast_(std::move(fast)), trusted_(std::move(trusted)) {
    FOLIO_CHECK(trusted_->Supports(Dtype::kF64), "the trusted backend must compute in float64");
  }

  std::string name() const override { return "checked"; }
  std::string description() const override {
    return fmt::format("{} ({}), every operation checked against {}", fast_->name(),
                       fast_->description(), trusted_->name());
  }
  bool Supports(Dtype dtype) const override { return fast_->Supports(dtype); }
  Dtype PreferredDtype() const override { return Dtype::kF32; }
  std::string ProductUnit(Dtype dtype) const override { return fast_->ProductUnit(dtype); }

  template <class Op>
  void Apply(const Op& op) {
    op.Check();
    const Comparison<Op> comparison(op, *trusted_);
    fast_->Run(op);
    if (const auto mismatch = comparison.Check(op)) {
      throw RuntimeError(
          fmt::format("{} of backend {} differs from {}", Op::kName, fast_->name(),
                      trusted_->name()),
          mismatch->ToString(),
          fmt::format("this is a fault of folio or of the machine: train with --backend {} and "
                      "report it",
                      trusted_->name()));
    }
  }

 private:
  std::unique_ptr<Backend> fast_, trusted_;
};

}  // namespace

std::unique_ptr<Backend> MakeCheckedBackend(std::unique_ptr<Backend> fast,
                                            std::unique_ptr<Backend> trusted) {
  return std::make_unique<CheckedBackend>(std::move(fast), std::move(trusted));
}

}  // namespace folio
