#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"

namespace folio {

// An OpTime holds what all calls of one operation took.
struct OpTime {
  std::string_view name;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // as the operation defines them
  double bytes = 0;  // of all operands, each once a call
};

// Hands operations to another backend and keeps account.
class TimedBackend final : public GenericBackend<TimedBackend> {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  std::string name() const override { return "timed"; }
  std::string description() const override;
  bool Supports(Dtype dtype) const override { return backend_->Supports(dtype); }
  Dtype PreferredDtype() const override { return backend_->PreferredDtype(); }
  std::string ProductUnit(Dtype dtype) const override { return backend_->ProductUnit(dtype); }

  // Times are since the start or the last Reset, the longest first.
  std::vector<OpTime> Times() const;
  void Reset() { times_.clear(); }

  template <class Op>
  void Apply(const Op& op) {
    const auto start = std::chrono::steady_clock::now();
    backend_->Run(op);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    double bytes = 0;
    for (const Operand& operand : Operands(op)) bytes += static_cast<double>(operand.bytes());
    Record({Op::kName, 1, elapsed.count(), op.Flops(), bytes});
  }

 private:
  void Record(const OpTime& call);

  std::unique_ptr<Backend> backend_;
  std::vector<OpTime> times_;  // in order of first use
};

// A table for people: operation, calls, milliseconds, share, GFLOP/s, GB/s; and a line for the sum.
std::string TimesTable(const std::vector<OpTime>& times);

}  // namespace folio
