#include "folio/backend/timed_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace folio {
namespace {

void Add(const OpTime& part, OpTime& sum) {
  sum.calls += part.calls;
  sum.seconds += part.seconds;
  sum.flops += part.flops;
  sum.bytes += part.bytes;
}

}  // namespace

std::string TimedBackend::description() const {
  return fmt::format("{} ({}), every operation timed", backend_->name(), backend_->description());
}

void TimedBackend::Record(const OpTime& call) {
  const auto same = [&](const OpTime& time) { return time.name == call.name; };
  const auto found = std::find_if(times_.begin(), times_.end(), same);
  if (found == times_.end()) {
    times_.push_back(call);
  } else {
    Add(call, *found);
  }
}

std::vector<OpTime> TimedBackend::Times() const {
  std::vector<OpTime> times = times_;
  std::stable_sort(times.begin(), times.end(),
                   [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
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

}  // namespace folio
