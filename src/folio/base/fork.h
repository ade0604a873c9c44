#pragma once

#include <atomic>
#include <cstdint>

namespace folio {

// A mutex for processes that fork while other threads run: those threads are not in the child, and
// there nothing is held by them. A child that locks what one of them held gets it at once; what it
// guards may be half-changed.
class ForkMutex {
 public:
  ForkMutex() = default;
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock();
  bool try_lock();
  void unlock();
  // Returns true if this thread holds it.
  bool HeldHere() const;

 private:
  bool TryLock(uint64_t& owner);

  std::atomic<uint64_t> owner_ = 0;  // the thread that holds it, 0 for none
};

// Returns how often the process and those before it were forked, up to this one: another number
// than before says that all other threads are gone.
uint64_t ForksSoFar();

}  // namespace folio
