#include "folio/base/fork.h"

#include <pthread.h>

namespace folio {
namespace {

constexpr int kForksFrom = 40;  // the first bit of a thread's number that holds ForksSoFar

constinit std::atomic<uint64_t> g_forks = 0, g_threads = 0;
constinit std::atomic<uint64_t> g_forked = 0;  // the thread that called fork
thread_local constinit uint64_t t_number = 0;

// A number that no other thread has, in this process or in those that it was forked from.
uint64_t ThisThread() {
  if (t_number == 0) t_number = g_forks << kForksFrom | ++g_threads;
  return t_number;
}

bool IsGone(uint64_t thread) {
  return thread >> kForksFrom < g_forks && thread != g_forked;
}

[[maybe_unused]] const int g_registered = pthread_atfork(nullptr, nullptr, [] {
  g_forked = t_number;
  ++g_forks;
});

}  // namespace

uint64_t ForksSoFar() {
  return g_forks;
}

// `owner` becomes the thread that holds the mutex, or held it until this process was forked.
bool ForkMutex::TryLock(uint64_t& owner) {
  const uint64_t self = ThisThread();
  owner = 0;
  if (owner_.compare_exchange_strong(owner, self)) return true;
  return IsGone(owner) && owner_.compare_exchange_strong(owner, self);
}

bool ForkMutex::lock() {
  uint64_t owner = 0;
  while (!TryLock(owner)) {
    if (owner != 0 && !IsGone(owner)) owner_.wait(owner);
  }
  return owner != 0;
}

bool ForkMutex::try_lock() {
  uint64_t owner = 0;
  return TryLock(owner);
}

void ForkMutex::unlock() {
  owner_ = 0;
  owner_.notify_one();
}

bool ForkMutex::HeldHere() const {
  return owner_ == ThisThread();
}

bool ForkMutex::Abandoned() const {
  const uint64_t owner = owner_;
  return owner != 0 && IsGone(owner);
}

}  // namespace folio
