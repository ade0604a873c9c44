#pragma once

#include <cstdint>
#include <deque>

namespace folio {

// The cost of an all-to-all for a rank, in seconds.
struct AllToAllCost {
  double prepare = 0;  // of the group's thread, before anything is sent: packing, posting messages
  double wire = 0;     // in which the rank's link is full
  double flight = 0;   // from the last byte that is sent to its arrival
  double finish = 0;   // of the group's thread, when everything is here: adding up
};

// The all-to-alls of a Group in simulated time, where all ranks do the same at the same time: one
// thread begins them in their order, AllToAll::kInFlight at most, the link carries one after the
// other, and the thread ends them in their order (dist/group.cc). Times that are given never go
// back.
class SimulatedGroup {
 public:
  // Group::Begin at that time.
  uint64_t Begin(double now, const AllToAllCost& cost);
  // Group::Wait: when it returns. Ticket 0 was always done.
  double Wait(double now, uint64_t ticket);

  // As GroupTraffic has them: with an all-to-all under way; of these, spent in Wait.
  double seconds() const { return seconds_; }
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Queued {
    double begun = 0;
    AllToAllCost cost = {};
  };
  struct UnderWay {
    double here = 0;    // when everything has arrived
    double finish = 0;  // AllToAllCost's
  };

  void RunUntilDone(uint64_t ticket);

  std::deque<Queued> queue_;
  std::deque<UnderWay> under_way_;
  uint64_t begun_ = 0, done_ = 0;
  double thread_ = 0;  // until when it was at work
  double link_ = 0;    // until when it is full
  double busy_since_ = 0;
  double seconds_ = 0, seconds_waited_ = 0;
};

}  // namespace folio
