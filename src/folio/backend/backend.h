#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/tensor/tensor.h"

namespace folio {

namespace internal {
template <class... Ops>
std::variant<const Ops*...> AnyOf(OperationList<Ops...>);
}  // namespace internal
using AnyOperation = decltype(internal::AnyOf(Operations()));  // points at one

// The forms of a pass that a backend runs best; those of the host's processors by default.
struct BackendPreferences {
  // The loss head takes rows of loss_logits logits at a time, but no fewer than loss_rows, or in
  // BF16 than loss_rows_bf16: there products round and pack the head's whole matrix for each chunk
  // of rows, which costs as much as about 100 rows.
  int64_t loss_logits = int64_t{1} << 22, loss_rows = 256, loss_rows_bf16 = 512;
  // In passes of BF16: logits of the loss are Low, and matrices have Low copies, which the
  // optimizer writes.
  bool low_logits = false, low_weights = false;
  bool residual_norm = false;  // ResidualNorm is faster than its two operations

  bool operator==(const BackendPreferences&) const = default;
};

// Runs operations; chosen at run time. One thread at a time may use a Backend; it distributes the
// work over Threads() threads itself.
class Backend {
 public:
  virtual ~Backend() = default;

  // Begins an operation, one of Operations. It is done before any later one of this backend, and
  // before a copy of its memory or Wait returns; in the host's memory, before Run returns.
  template <class Op>
  void Run(const Op& op) {
    RunAny(&op);
  }
  // Waits until all operations are done.
  virtual void Wait() {}
  // The memory in which the operands of operations lie.
  virtual Memory& memory() { return HostMemory(); }

  virtual std::string name() const = 0;          // "reference", "cpu"
  virtual std::string description() const = 0;   // for display: instruction set, libraries
  virtual bool Supports(Dtype dtype) const = 0;  // BF16: as the dtype of operands marked Low
  // The dtype in which models train fastest, F32 or BF16.
  virtual Dtype PreferredDtype() const = 0;
  virtual BackendPreferences preferences() const { return {}; }
  // The unit that multiplies matrices of F32 or BF16, for display: "AMX", "AVX3", "reference".
  virtual std::string ProductUnit(Dtype) const { return name(); }

 private:
  virtual void RunAny(const AnyOperation& op) = 0;
};

// A Backend with one template for all operations: Derived has `template <class Op> void Apply(const
// Op& op)`, which Run calls.
template <class Derived>
class GenericBackend : public Backend {
 private:
  void RunAny(const AnyOperation& any) final {
    std::visit([this](const auto* op) { static_cast<Derived*>(this)->Apply(*op); }, any);
  }
};

// "reference" or "cpu", or a decorated one: "checked" (cpu compared with reference; the first
// operation that differs throws a kRuntime Error naming it) and "timed" (cpu with a table of
// times); or, which BackendNames does not list, "fenced" (fenced_backend.h), for tests. Throws a
// kUsage Error for any other name. Defined in decorated_backends.cc.
std::unique_ptr<Backend> MakeBackend(const std::string& name);
// All of them, or those alone that do no more than compute.
std::vector<std::string> BackendNames(bool finds_faults = true);

std::unique_ptr<Backend> MakeReferenceBackend();
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace folio
