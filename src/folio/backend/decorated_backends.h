#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"

namespace folio {

// The first element of an operand that differs from its expected value.
struct Mismatch {
  std::string operand;
  int64_t element = 0;  // in row-major order
  double expected = 0, found = 0, tolerance = 0;

  std::string ToString() const;  // "d_x[17] is 3, expected 2 within 1e-07"
};

// How far numbers of a twin are changed: each is multiplied by 1 plus or minus its part, at random.
struct Disturbance {
  double numbers = 0;  // for float32 and float64 operands
  double halves = 0;   // for bfloat16 operands
};

// Owns the arrays of a twin.
class OperandCopies {
 public:
  explicit OperandCopies(Disturbance disturbance) : disturbance_(disturbance) {}

  // The copy is dense, in the operand's row-major order.
  Tensor Copy(const Operand& x, Rounding rounded = Rounding::kNone);

 private:
  struct Entry {
    const std::byte* source;
    int64_t count;
    Rounding rounded;
    std::vector<double> memory;  // also holds integers
  };
  void CopyNumbers(const Operand& x, Entry& entry) const;

  Disturbance disturbance_;
  std::deque<Entry> entries_;  // a deque: tensors point into the entries
};

// The same operation on copies of its operands: numbers as float64, integers unchanged. Operands
// that are one array stay one array, so that in-place work stays in place.
template <class Op>
class Twin {
 public:
  explicit Twin(const Op& original, Disturbance disturbance = {})
      : copies_(disturbance), op_(original) {
    VisitMutable(op_, [&](std::string_view name, auto& x, Access access) {
      if (!x) return;
      const Operand operand{name, access, x};
      const Tensor copy = copies_.Copy(operand);
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
        operands_.push_back({name, access, copy});
        const Rounding rounded = EntersAs(original, name);
        x = rounded == Rounding::kNone ? copy : copies_.Copy(operand, rounded);
      } else {
        x = SequenceView(copy.Reshape({x.B * x.T, x.C}), x.B, x.T, 0, x.C);
        operands_.push_back({name, access, x});
      }
    });
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  // The operation to run, with operands already rounded as they enter the original.
  const Op& op() const { return op_; }
  // The operands of op(), but not rounded.
  const std::vector<Operand>& operands() const { return operands_; }

 private:
  OperandCopies copies_;
  Op op_;
  std::vector<Operand> operands_;
};

namespace internal {

// The largest term inside of a norm's backward that cancels in its d_x for all operands, so that
// only rounding remains: a part of d_out * weight is subtracted, and all of it in a row of one
// element. REQUIRES: F64.
double LargestCancelled(const LayerNormBackward& op);
double LargestCancelled(const RmsNormBackward& op);
double LargestCancelled(const HeadNormBackward& op);
// The rounding unit of the operation's compute dtype.
double RoundingUnit(const std::vector<Operand>& operands);
// The largest change of each operand; elements that are not finite are ignored.
std::vector<double> LargestChanges(const std::vector<Operand>& from,
                                   const std::vector<Operand>& to);
// The tolerance of each operand, except for storing bfloat16 elements. The changes are those of the
// operands if all inputs are changed by the rounding unit, and, empty unless the operation may
// round inside, if bfloat16 inputs are changed by the usual error of rounding to bfloat16.
std::vector<double> Tolerances(const std::vector<Operand>& operands,
                               const std::vector<Operand>& expected,
                               const std::vector<double>& changes,
                               const std::vector<double>& low_changes, double cancelled);
// An "act" of that activation may also be off by the effect of rounding "out".
std::optional<Mismatch> FindMismatch(const std::vector<Operand>& found,
                                     const std::vector<Operand>& expected,
                                     const std::vector<double>& tolerances,
                                     std::optional<Activation> activation);

}  // namespace internal

// The expected result of an operation: a trusted backend computes it in float64, on copies.
//
// The tolerance is computed too. The operation also runs on operands that are each changed by one
// rounding unit u of its compute dtype (float64 if its results are, else float32), up or down at
// random. The largest change of an operand shows how the operation magnifies rounding errors;
// rounding inside of the operation may cause (8 + sqrt(n)) times that, n being the longest
// dimension of any operand and so the most terms that a sum can have in one direction, and storing
// results 4 u of the largest magnitude. An element of a bfloat16 result may also be off by half a
// unit in its own last place. An operation that may round to bfloat16 inside does so once for a
// number, not for every partial sum; it runs a third time on bfloat16 operands that are each
// changed by 2^-9, and its bfloat16 results may be off by 4 times the largest change that this
// causes. A result computed from elements of another one may be off by the effect of their half
// units. Operands that are only read must not change at all.
template <class Op>
class Comparison {
 public:
  // Must be made before the operation runs. REQUIRES: trusted supports F64.
  Comparison(const Op& op, Backend& trusted) : expected_(op) {
    const std::vector<Operand> operands = Operands(op);
    double cancelled = 0;
    if constexpr (requires { internal::LargestCancelled(op); }) {
      cancelled = internal::LargestCancelled(expected_.op());
    }
    trusted.Run(expected_.op());
    const double unit = internal::RoundingUnit(operands);
    const std::vector<double> changes = Changes(op, {unit, unit}, trusted);
    std::vector<double> low_changes;
    if constexpr (std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>) {
      if (op.q.dtype == Dtype::kBF16) low_changes = Changes(op, {0, 0x1p-9}, trusted);
    }
    tolerances_ =
        internal::Tolerances(operands, expected_.operands(), changes, low_changes, cancelled);
  }

  // Call after `op` ran elsewhere.
  std::optional<Mismatch> Check(const Op& op) const {
    std::optional<Activation> activation;
    if constexpr (std::is_same_v<Op, LinearForward>) activation = op.activation;
    return internal::FindMismatch(Operands(op), expected_.operands(), tolerances_, activation);
  }

 private:
  std::vector<double> Changes(const Op& op, Disturbance disturbance, Backend& trusted) const {
    const Twin<Op> disturbed(op, disturbance);
    trusted.Run(disturbed.op());
    return internal::LargestChanges(expected_.operands(), disturbed.operands());
  }

  Twin<Op> expected_;
  std::vector<double> tolerances_;
};

// Derived runs operations on another backend, whose answers it gives unless it overrides them.
template <class Derived>
class ForwardingBackend : public GenericBackend<Derived> {
 public:
  // `backend` must outlive it.
  explicit ForwardingBackend(Backend& backend) : backend_(backend) {}
  explicit ForwardingBackend(std::unique_ptr<Backend> backend)
      : own_(std::move(backend)), backend_(*own_) {}

  std::string name() const override { return backend_.name(); }
  std::string description() const override { return backend_.description(); }
  bool Supports(Dtype dtype) const override { return backend_.Supports(dtype); }
  Dtype PreferredDtype() const override { return backend_.PreferredDtype(); }
  BackendPreferences preferences() const override { return backend_.preferences(); }
  std::string ProductUnit(Dtype dtype) const override { return backend_.ProductUnit(dtype); }
  void Wait() override { backend_.Wait(); }
  Memory& memory() override { return backend_.memory(); }

 protected:
  Backend& backend() const { return backend_; }

 private:
  std::unique_ptr<Backend> own_ = nullptr;  // null if the backend belongs to another
  Backend& backend_;
};

// Runs every operation on `fast` and, on copies, on `trusted` (which must support F64). The first
// operation whose result differs by more than rounding explains throws a kRuntime Error that names
// operation, operand, element and both values. Slow.
std::unique_ptr<Backend> MakeCheckedBackend(std::unique_ptr<Backend> fast,
                                            std::unique_ptr<Backend> trusted);

// The caller's knowledge about the operations; either function may be empty.
struct OperationContext {
  std::function<std::string()> when = {};  // "step 12"
  // The name of the tensor at this address, "" if unknown: "transformer.h.0.mlp.c_fc.weight".
  std::function<std::string(const std::byte*)> name_of = {};
};

struct NonFinite {
  int64_t element = 0;  // in row-major order
  double value = 0;
  const std::byte* at = nullptr;
};
// The first number of F32, BF16 or F64 that is not finite; nothing for operands of other dtypes.
std::optional<NonFinite> FindNonFinite(const Operand& x);

// Runs operations on another backend and, after Watch, checks every number that they write. The
// first that is not finite throws a kDiverged Error: when, the operation, operand, element and
// value, the parameter that this or the last operation before it used, and whether its inputs were
// finite.
class FiniteBackend final : public ForwardingBackend<FiniteBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;

  // Objects that the context refers to must outlive the operations that follow.
  void Watch(OperationContext context) { context_ = std::move(context); }

  std::string description() const override;

  template <class Op>
  void Apply(const Op& op) {
    if (!context_) return backend().Run(op);
    const std::vector<Operand> operands = Operands(op);
    Remember(operands);
    backend().Run(op);
    Look(Op::kName, operands);
  }

 private:
  void Remember(const std::vector<Operand>& operands);
  void Look(std::string_view operation, const std::vector<Operand>& operands) const;
  std::optional<NonFinite> Find(const Operand& x) const;

  std::optional<OperationContext> context_;
  std::string near_;  // name_of an operand of the last operation that had a named one
};

// Runs operations on another backend; calls a function before each, which may throw instead.
class WatchedBackend final : public ForwardingBackend<WatchedBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;

  void Watch(std::function<void()> before) { before_ = std::move(before); }

  template <class Op>
  void Apply(const Op& op) {
    if (before_) before_();
    backend().Run(op);
  }

 private:
  std::function<void()> before_;
};

// The totals of all calls of one operation.
struct OpTime {
  std::string_view name;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // as defined by the operation
  double bytes = 0;  // of all operands, counted once per call
};

// Runs operations on another backend and records their times.
class TimedBackend final : public ForwardingBackend<TimedBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::string name() const override { return "timed"; }
  std::string description() const override;

  // Times since the start or the last Reset, longest first.
  std::vector<OpTime> Times() const;
  void Reset() { times_.clear(); }

  template <class Op>
  void Apply(const Op& op) {
    const auto start = std::chrono::steady_clock::now();
    backend().Run(op);
    backend().Wait();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    double bytes = 0;
    for (const Operand& operand : Operands(op)) bytes += static_cast<double>(operand.bytes());
    Record({Op::kName, 1, elapsed.count(), op.Flops(), bytes});
  }

 private:
  void Record(const OpTime& call);

  std::vector<OpTime> times_;  // in order of first use
};

// A table: operation, calls, milliseconds, share, GFLOP/s, GB/s; and a line for the sum.
std::string TimesTable(const std::vector<OpTime>& times);

}  // namespace folio
