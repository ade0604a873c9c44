#include "folio/bench/simulated_group.h"

#include <algorithm>

#include "folio/base/check.h"
#include "folio/dist/group.h"

namespace folio {

uint64_t SimulatedGroup::Begin(double now, const AllToAllCost& cost) {
  queue_.push_back({.begun = now, .cost = cost});
  return ++begun_;
}

double SimulatedGroup::Wait(double now, uint64_t ticket) {
  FOLIO_CHECK(ticket <= begun_, "nobody began it");
  // Nothing else is begun until then, so that the thread's future is known as far as it is needed.
  RunUntilDone(ticket);
  // Times that lie ahead are of the all-to-all waited for: the thread has done nothing after it.
  const double then = ticket == 0 ? now : std::max(now, thread_);
  seconds_waited_ += then - now;
  return then;
}

void SimulatedGroup::RunUntilDone(uint64_t ticket) {
  while (done_ < ticket) {
    const bool room = under_way_.size() < AllToAll::kInFlight && !queue_.empty();
    if (room && (under_way_.empty() || queue_.front().begun <= thread_)) {
      thread_ = std::max(thread_, queue_.front().begun);
      if (under_way_.empty()) busy_since_ = thread_;
      const AllToAllCost cost = queue_.front().cost;
      queue_.pop_front();
      thread_ += cost.prepare;
      link_ = std::max(link_, thread_) + cost.wire;
      under_way_.push_back({.here = link_ + cost.flight, .finish = cost.finish});
      continue;
    }
    const double here = under_way_.front().here;
    if (room && here > thread_ && queue_.front().begun < here) {
      thread_ = queue_.front().begun;
      continue;
    }
    thread_ = std::max(thread_, here) + under_way_.front().finish;
    under_way_.pop_front();
    ++done_;
    if (under_way_.empty()) seconds_ += thread_ - busy_since_;
  }
}

}  // namespace folio
