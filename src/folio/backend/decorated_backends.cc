#include "folio/backend/decorated_backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>

#include "folio/backend/fenced_backend.h"
#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "folio/base/strings.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

void OperandCopies::CopyNumbers(const Operand& x, Entry& entry) const {
  const double relative = x.dtype() == Dtype::kBF16 ? disturbance_.halves : disturbance_.numbers;
  const CounterRng rng(0, entries_.size());
  std::vector<double> elements = x.Elements();
  if (entry.rounded != Rounding::kNone) {
    std::vector<float> rounded(elements.begin(), elements.end());
    RoundNumbers(entry.rounded, rounded);
    elements.assign(rounded.begin(), rounded.end());
  }
  uint32_t bits = 0;  // one bit for each of 32 numbers
  for (size_t i = 0; i < elements.size(); ++i) {
    const double value = elements[i];
    if (i % 32 == 0 && relative > 0) bits = rng.Bits(i);
    const double sign = (bits >> (i % 32)) & 1 ? 1 : -1;
    entry.memory[i] = value * (1 + relative * sign);
  }
}

Tensor OperandCopies::Copy(const Operand& x, Rounding rounded) {
  const bool number = IsFloating(x.dtype());
  const Dtype dtype = number ? Dtype::kF64 : x.dtype();
  const auto* tensor = std::get_if<Tensor>(&x.view);
  const Shape shape = tensor ? tensor->shape() : Shape{x.count()};
  for (Entry& entry : entries_) {
    if (entry.source == x.data() && entry.count == x.count() && entry.rounded == rounded) {
      return {entry.memory.data(), dtype, shape};
    }
  }
  // One element more than needed, so that an empty array still has an address.
  entries_.push_back(
      {x.data(), x.count(), rounded, std::vector<double>(static_cast<size_t>(x.count()) + 1)});
  Entry& entry = entries_.back();
  if (number) {
    CopyNumbers(x, entry);
  } else {
    std::memcpy(entry.memory.data(), x.data(), x.bytes());  // integers are dense Tensors
  }
  return {entry.memory.data(), dtype, shape};
}

std::string Mismatch::ToString() const {
  return fmt::format("{}[{}] is {:.9g}, expected {:.9g} within {:.2g}", operand, element, found,
                     expected, tolerance);
}

namespace internal {
namespace {

// Returns true if an operand that is only read is the same array as one that is written.
bool IsOverwritten(const Operand& operand, const std::vector<Operand>& operands) {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& other) {
    return other.access != Access::kRead && other.data() == operand.data();
  });
}

double Largest(const Operand& x) {
  double largest = 0;
  for (const double value : x.Elements()) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Half a unit in the last place of a number stored as bfloat16; 0 for other dtypes.
double StoringError(Dtype dtype, double value) {
  if (dtype != Dtype::kBF16 || value == 0 || !std::isfinite(value)) return 0;
  constexpr int kSmallestExponent = -126, kPrecision = 8;
  return std::ldexp(1.0, std::max(std::ilogb(value), kSmallestExponent) - kPrecision);
}

// The steepest slope that an activation has near x; most have gelu's at 1.4.
double Steepest(Activation kind, double x) {
  return kind == Activation::kRelu2 ? 2.01 * std::abs(x) : 1.13;
}

bool Agree(double expected, double found, double tolerance) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  return std::abs(expected - found) <= tolerance;
}

// The largest of `gradients`, in rows of C, times the weight plus `offset`, and rstd.
double LargestProduct(const std::vector<double>& gradients, const Tensor& weight, double offset,
                      const Tensor& rstd, int64_t C) {
  double largest = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(gradients.size()); ++i) {
    const double factor = weight ? weight.data<double>()[i % C] + offset : 1;
    largest = std::max(
        largest, std::abs(gradients[static_cast<size_t>(i)] * factor * rstd.data<double>()[i / C]));
  }
  return largest;
}

}  // namespace

double LargestCancelled(const LayerNormBackward& op) {
  return LargestProduct(Operand{"d_out", Access::kRead, op.d_out}.Elements(), op.weight, 0, op.rstd,
                        op.x.dim(1));
}

double LargestCancelled(const RmsNormBackward& op) {
  return LargestProduct(Operand{"d_out", Access::kRead, op.d_out}.Elements(), op.weight,
                        op.weight_offset, op.rstd, op.x.dim(1));
}

double LargestCancelled(const HeadNormBackward& op) {
  return op.scale * LargestProduct(Operand{"d_x", Access::kRead, op.d_x}.Elements(), op.weight,
                                   op.weight_offset, op.rstd, op.group);
}

double RoundingUnit(const std::vector<Operand>& operands) {
  for (const Operand& operand : operands) {
    if (operand.access == Access::kRead) continue;
    return std::ldexp(1.0, operand.dtype() == Dtype::kF64 ? -53 : -24);
  }
  FOLIO_CHECK(false, "an operation without results");
}

std::vector<double> LargestChanges(const std::vector<Operand>& from,
                                   const std::vector<Operand>& to) {
  std::vector<double> changes(from.size());
  for (size_t k = 0; k < from.size(); ++k) {
    const std::vector<double> before = from[k].Elements(), after = to[k].Elements();
    for (size_t i = 0; i < before.size(); ++i) {
      const double change = std::abs(after[i] - before[i]);
      if (std::isfinite(change)) changes[k] = std::max(changes[k], change);
    }
  }
  return changes;
}

std::vector<double> Tolerances(const std::vector<Operand>& operands,
                               const std::vector<Operand>& expected,
                               const std::vector<double>& changes,
                               const std::vector<double>& low_changes, double cancelled) {
  const double unit = RoundingUnit(operands);
  int64_t length = 1;
  for (const Operand& operand : operands) length = std::max(length, operand.largest_dimension());
  const double errors = 8 + std::sqrt(static_cast<double>(length));
  std::vector<double> tolerances(operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].access == Access::kRead) continue;
    const double largest =
        std::max(Largest(expected[k]), operands[k].name == "d_x" ? cancelled : 0);
    // A change of a single number may be 0 by chance, but its sum is still rounded.
    const double change = std::max(changes[k], unit * largest);
    tolerances[k] = errors * change + 4 * unit * largest;
    if (low_changes.empty() || operands[k].dtype() != Dtype::kBF16) continue;
    tolerances[k] += 4 * low_changes[k];
  }
  return tolerances;
}

std::optional<Mismatch> FindMismatch(const std::vector<Operand>& found,
                                     const std::vector<Operand>& expected,
                                     const std::vector<double>& tolerances,
                                     std::optional<Activation> activation) {
  const auto out = std::ranges::find(expected, "out", &Operand::name);
  for (size_t k = 0; k < found.size(); ++k) {
    const bool read = found[k].access == Access::kRead;
    if (read && IsOverwritten(expected[k], expected)) continue;
    const std::vector<double> want = expected[k].Elements(), have = found[k].Elements();
    const Dtype dtype = found[k].dtype();
    std::vector<double> from;
    if (activation && found[k].name == "act") from = out->Elements();
    for (size_t i = 0; i < want.size(); ++i) {
      if (want[i] == have[i]) continue;
      double tolerance = tolerances[k] + (read ? 0 : StoringError(dtype, want[i]));
      if (!from.empty()) {
        tolerance += Steepest(*activation, from[i]) * StoringError(dtype, from[i]);
      }
      if (Agree(want[i], have[i], tolerance)) continue;
      const auto element = static_cast<int64_t>(i);
      return Mismatch{std::string(found[k].name), element, want[i], have[i], tolerance};
    }
  }
  return std::nullopt;
}

}  // namespace internal

namespace {

class CheckedBackend final : public ForwardingBackend<CheckedBackend> {
 public:
  CheckedBackend(std::unique_ptr<Backend> fast, std::unique_ptr<Backend> trusted)
      : ForwardingBackend(std::move(fast)), trusted_(std::move(trusted)) {
    FOLIO_CHECK(trusted_->Supports(Dtype::kF64), "the trusted backend must compute in float64");
  }

  std::string name() const override { return "checked"; }
  std::string description() const override {
    return fmt::format("{} ({}), every operation checked against {}", backend().name(),
                       backend().description(), trusted_->name());
  }
  Dtype PreferredDtype() const override { return Dtype::kF32; }

  template <class Op>
  void Apply(const Op& op) {
    op.Check();
    const Comparison<Op> comparison(op, *trusted_);
    backend().Run(op);
    if (const auto mismatch = comparison.Check(op)) {
      throw RuntimeError(fmt::format("{} of backend {} differs from {}", Op::kName,
                                     backend().name(), trusted_->name()),
                         mismatch->ToString(),
                         fmt::format("this is a bug in folio or a fault of the machine: train with "
                                     "--backend {} and report it",
                                     trusted_->name()));
    }
  }

 private:
  std::unique_ptr<Backend> trusted_;
};

}  // namespace

std::unique_ptr<Backend> MakeCheckedBackend(std::unique_ptr<Backend> fast,
                                            std::unique_ptr<Backend> trusted) {
  return std::make_unique<CheckedBackend>(std::move(fast), std::move(trusted));
}

namespace {

// Finds the first number that is not finite among `count` numbers, from element `first` on.
template <class T>
std::optional<NonFinite> FindIn(const std::byte* data, int64_t count, int64_t first) {
  const T* numbers = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    const double value = ToDouble(numbers[i]);
    if (!std::isfinite(value)) {
      return NonFinite{first + i, value, reinterpret_cast<const std::byte*>(numbers + i)};
    }
  }
  return {};
}

template <class T>
std::optional<NonFinite> Find(const Operand& x) {
  const auto* rows = std::get_if<SequenceView>(&x.view);
  if (!rows) return FindIn<T>(x.data(), x.count(), 0);
  for (int64_t row = 0; row < rows->B * rows->T; ++row) {
    const int64_t offset = row / rows->T * rows->batch_stride + row % rows->T * rows->row_stride;
    const std::byte* data = rows->data + offset * static_cast<int64_t>(sizeof(T));
    if (const auto found = FindIn<T>(data, rows->C, row * rows->C)) return found;
  }
  return {};
}

std::string ValueText(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::string ShapeText(const Operand& x) {
  if (const auto* tensor = std::get_if<Tensor>(&x.view)) return tensor->shape().ToString();
  const auto& rows = std::get<SequenceView>(x.view);
  return Shape{rows.B, rows.T, rows.C}.ToString();
}

}  // namespace

std::optional<NonFinite> FindNonFinite(const Operand& x) {
  switch (x.dtype()) {
    case Dtype::kF32:
      return Find<float>(x);
    case Dtype::kBF16:
      return Find<BF16>(x);
    case Dtype::kF64:
      return Find<double>(x);
    default:
      return {};
  }
}

std::string FiniteBackend::description() const {
  return fmt::format("{}, all results checked", backend().description());
}

void FiniteBackend::Remember(const std::vector<Operand>& operands) {
  if (!context_->name_of) return;
  for (const Operand& operand : operands) {
    if (std::string name = context_->name_of(operand.data()); !name.empty()) {
      near_ = std::move(name);
      return;
    }
  }
}

// FindNonFinite in the backend's memory.
std::optional<NonFinite> FiniteBackend::Find(const Operand& x) const {
  if (backend().memory().on_host()) return FindNonFinite(x);
  const auto* rows = std::get_if<SequenceView>(&x.view);
  const int64_t elements = rows == nullptr ? x.count()
                                           : (rows->B - 1) * rows->batch_stride +
                                                 (rows->T - 1) * rows->row_stride + rows->C;
  const HostCopy copy(
      Tensor(const_cast<std::byte*>(x.data()), x.dtype(), {elements}, &backend().memory()));
  std::byte* const data = copy.tensor().raw();
  Operand copied = x;
  if (rows == nullptr) {
    copied.view = copy.tensor();
  } else {
    std::get<SequenceView>(copied.view).data = data;
  }
  std::optional<NonFinite> found = FindNonFinite(copied);
  if (found) found->at = x.data() + (found->at - data);
  return found;
}

void FiniteBackend::Look(std::string_view operation, const std::vector<Operand>& operands) const {
  for (const Operand& result : operands) {
    if (result.access == Access::kRead) continue;
    const std::optional<NonFinite> found = Find(result);
    if (!found) continue;
    std::string inputs = "its inputs are finite";
    for (const Operand& input : operands) {
      if (input.access != Access::kRead) continue;
      const auto bad = Find(input);
      if (bad) {
        inputs = fmt::format("element {} of {}, an input, is already {}", bad->element, input.name,
                             ValueText(bad->value));
        break;
      }
    }
    const std::string when = context_->when ? context_->when() + ": " : "";
    const std::string own = context_->name_of ? context_->name_of(found->at) : "";
    std::string place = near_.empty() ? "" : fmt::format(", at or after {}", near_);
    if (!own.empty()) place = fmt::format(", in {}", own);
    throw Error(ErrorKind::kDiverged,
                fmt::format("{}{} produced a number that is not finite", when, operation),
                fmt::format("element {} of {} {} is {}{}; {}", found->element, result.name,
                            ShapeText(result), ValueText(found->value), place, inputs),
                "lower train.learning_rate or raise train.warmup_steps; if that does not help, try "
                "--dtype fp32 or --backend checked");
  }
}

namespace {

void Add(const OpTime& part, OpTime& sum) {
  sum.calls += part.calls;
  sum.seconds += part.seconds;
  sum.flops += part.flops;
  sum.bytes += part.bytes;
}

}  // namespace

std::string TimedBackend::description() const {
  return fmt::format("{} ({}), every operation timed", backend().name(), backend().description());
}

void TimedBackend::Record(const OpTime& call) {
  const auto found = std::ranges::find(times_, call.name, &OpTime::name);
  if (found == times_.end()) {
    times_.push_back(call);
  } else {
    Add(call, *found);
  }
}

std::vector<OpTime> TimedBackend::Times() const {
  std::vector<OpTime> times = times_;
  std::ranges::stable_sort(times, std::ranges::greater{}, &OpTime::seconds);
  return times;
}

std::string TimesTable(const std::vector<OpTime>& times) {
  OpTime total{.name = "total"};
  for (const OpTime& time : times) Add(time, total);
  std::string table = fmt::format("{:<28}{:>9}{:>12}{:>8}{:>10}{:>9}\n", "operation", "calls", "ms",
                                  "share", "GFLOP/s", "GB/s");
  const auto line = [&](const OpTime& time) {
    const auto rate = [&](double amount) {
      return time.seconds > 0 ? amount / time.seconds / 1e9 : 0.0;
    };
    fmt::format_to(std::back_inserter(table), "{:<28}{:>9}{:>12.3f}{:>7.1f}%{:>10.1f}{:>9.1f}\n",
                   time.name, time.calls, time.seconds * 1e3,
                   total.seconds > 0 ? 100 * time.seconds / total.seconds : 0.0, rate(time.flops),
                   rate(time.bytes));
  };
  for (const OpTime& time : times) line(time);
  line(total);
  return table;
}

namespace {

// A backend that people may choose; those for finding faults come last.
struct NamedBackend {
  std::string_view name;
  std::unique_ptr<Backend> (*make)();
  bool finds_faults = false;
};

constexpr auto kBackends = std::to_array<NamedBackend>({
    {"cpu", MakeCpuBackend},
    {"reference", MakeReferenceBackend},
    {"checked", [] { return MakeCheckedBackend(MakeCpuBackend(), MakeReferenceBackend()); }, true},
    {"timed",
     []() -> std::unique_ptr<Backend> { return std::make_unique<TimedBackend>(MakeCpuBackend()); },
     true},
});

}  // namespace

std::unique_ptr<Backend> MakeBackend(const std::string& name) {
  if (name == "fenced") return MakeFencedBackend();
  const auto found = std::ranges::find(kBackends, name, &NamedBackend::name);
  if (found != kBackends.end()) return found->make();
  const std::vector<std::string> names = BackendNames();
  const std::string nearest = Nearest(name, names);
  throw UsageError(fmt::format("there is no backend \"{}\"", name),
                   fmt::format("available: {}", Join(names, ", ")),
                   nearest.empty() ? "choose one of them" : fmt::format("use {}", nearest));
}

std::vector<std::string> BackendNames(bool finds_faults) {
  std::vector<std::string> names;
  for (const NamedBackend& backend : kBackends) {
    if (finds_faults || !backend.finds_faults) names.emplace_back(backend.name);
  }
  return names;
}

}  // namespace folio
