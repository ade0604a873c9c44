#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"

namespace folio {

// OperationContext holds what the caller knows of the operations; either function may be empty.
struct OperationContext {
  std::function<std::string()> when = {};  // "step 12"
  // `name_of` says whose number lies there, "" for nobody's: "transformer.h.0.mlp.c_fc.weight".
  std::function<std::string(const std::byte*)> name_of = {};
};

// Hands operations to another backend and, from Watch on, looks at every number that they write.
// The first that is not finite throws a kDiverged Error: when, the operation, operand, element and
// value, the parameter that this or the last operation before it dealt with, and whether what it
// read was finite.
class FiniteBackend final : public GenericBackend<FiniteBackend> {
 public:
  explicit FiniteBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  // What the context refers to must outlive the operations that follow.
  void Watch(OperationContext context) { context_ = std::move(context); }

  std::string name() const override { return backend_->name(); }
  std::string description() const override;
  bool Supports(Dtype dtype) const override { return backend_->Supports(dtype); }
  Dtype PreferredDtype() const override { return backend_->PreferredDtype(); }
  std::string ProductUnit(Dtype dtype) const override { return backend_->ProductUnit(dtype); }

  template <class Op>
  void Apply(const Op& op) {
    if (!context_) return backend_->Run(op);
    const std::vector<Operand> operands = Operands(op);
    Remember(operands);
    backend_->Run(op);
    Look(Op::kName, operands);
  }

 private:
  void Remember(const std::vector<Operand>& operands);
  void Look(std::string_view operation, const std::vector<Operand>& operands) const;

  std::unique_ptr<Backend> backend_;
  std::optional<OperationContext> context_;
  std::string near_;  // name_of an operand of the last operation that had such
};

struct NonFinite {
  int64_t element = 0;  // in row-major order
  double value = 0;
  const std::byte* at = nullptr;
};
// The first number of F32, BF16 or F64 that is not finite; other operands have none.
std::optional<NonFinite> FindNonFinite(const Operand& x);

}  // namespace folio
