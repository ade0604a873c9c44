#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/backend/ops.h"

namespace folio {

namespace internal {
// One pure virtual Run for each operation.
template <class List>
class RunsOperations;
template <>
class RunsOperations<OperationList<>> {
 public:
  virtual ~RunsOperations() = default;
  void Run() = delete;  // for the using-declaration of the next
};
template <class Op, class... Rest>
class RunsOperations<OperationList<Op, Rest...>> : public RunsOperations<OperationList<Rest...>> {
 public:
  using RunsOperations<OperationList<Rest...>>::Run;
  virtual void Run(const Op&) = 0;
};
}  // namespace internal

// A Backend, chosen at run time, runs operations: it has Run(op) for each of Operations. Run
// returns when the operation is done. One thread at a time may use a Backend; it spreads the work
// over Threads() threads itself.
class Backend : public internal::RunsOperations<Operations> {
 public:
  virtual std::string name() const = 0;          // "reference", "cpu"
  virtual std::string description() const = 0;   // for people: instruction set, libraries
  virtual bool Supports(Dtype dtype) const = 0;  // BF16: as the dtype of the operands marked Half
  // The dtype that models train fastest in, of F32 and BF16.
  virtual Dtype PreferredDtype() const = 0;
  // ProductUnit names, for people, what multiplies matrices of F32 or BF16: "AMX", "AVX3",
  // "reference".
  virtual std::string ProductUnit(Dtype) const { return name(); }
};

// A Backend whose operations are all one template: Derived has
// `template <class Op> void Apply(const Op& op)`, and each Run calls it.
template <class Derived, class List = Operations>
class GenericBackend;

template <class Derived>
class GenericBackend<Derived, OperationList<>> : public Backend {
 public:
  using Backend::Run;
};

template <class Derived, class Op, class... Rest>
class GenericBackend<Derived, OperationList<Op, Rest...>>
    : public GenericBackend<Derived, OperationList<Rest...>> {
 public:
  using GenericBackend<Derived, OperationList<Rest...>>::Run;
  void Run(const Op& op) final { static_cast<Derived*>(this)->Apply(op); }
};

// "reference" or "cpu", or either decorated: "checked" (cpu beside reference; the first operation
// that differs throws a kRuntime Error naming it) and "timed" (cpu with a table of times). Throws a
// kUsage Error for any other name.
std::unique_ptr<Backend> MakeBackend(const std::string& name);
std::vector<std::string> BackendNames();

std::unique_ptr<Backend> MakeReferenceBackend();
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace folio
