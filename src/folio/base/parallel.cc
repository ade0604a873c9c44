#include "folio/base/parallel.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

// How long a thread that waits stays awake: longer than the pauses between the operations of a
// small model, short enough to leave the processor soon to whoever else has work.
constexpr std::chrono::microseconds kSpin{50};
// When a thread that waits for a call yields, once: on a busy machine it may have woken up on the
// processor of the very thread whose tasks it waits for.
constexpr std::chrono::microseconds kYield{5};

int ProcessorsOfThisProcess() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::atomic<int>& ThreadCount() {
  static std::atomic<int> threads = ProcessorsOfThisProcess();
  return threads;
}

// Number of this thread within the ParallelFor that it runs tasks of; -1 outside.
thread_local int t_number = -1;

// Signals that come from outside; those that an instruction of the thread itself raises stay out.
sigset_t OutsideSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&signals, own);
  return signals;
}

// While it lives, this thread is thread `number` of a ParallelFor, and what tasks call may rely on:
// - OpenMP has one thread here (it is used for this alone): libraries that split their work by
//   OpenMP must not split a task again, for their sums would then depend on the number of threads.
// - No signal handler runs on this thread's stack; signals wait. oneDNN's generated products point
//   the stack register into a buffer of the heap, and a handler's frame would land beside it.
// Both settings belong to the thread that makes them.
class Inside {
 public:
  explicit Inside(int number) : outside_(omp_get_max_threads()) {
    static const sigset_t signals = OutsideSignals();
    pthread_sigmask(SIG_BLOCK, &signals, &outside_mask_);
    t_number = number;
    omp_set_num_threads(1);
  }
  ~Inside() {
    omp_set_num_threads(outside_);
    t_number = -1;
    pthread_sigmask(SIG_SETMASK, &outside_mask_, nullptr);
  }
  Inside(const Inside&) = delete;

 private:
  const int outside_;
  sigset_t outside_mask_;
};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Where one thread waits for what others change: awake for kSpin, then asleep. No wake-up is lost,
// given that the change and what `ready` reads are sequentially consistent and that Wake follows
// the change: either `ready`, which comes after setting asleep_, sees the change, or Wake sees
// asleep_. A Wake that comes late ends some later sleep early, which then goes on.
class Waiter {
 public:
  explicit Waiter(bool yields) : yields_(yields) {}

  void Until(auto ready) {
    if (SpinUntil(ready)) return;
    for (asleep_ = 1; !ready(); asleep_ = 1) asleep_.wait(1);
    asleep_ = 0;
  }

  void Wake() {
    if (asleep_ == 0) return;
    asleep_ = 0;
    asleep_.notify_one();
  }

 private:
  bool SpinUntil(auto ready) const {
    if (ready()) return true;
    const auto begin = std::chrono::steady_clock::now();
    bool yielded = !yields_;
    for (auto now = begin; now < begin + kSpin; now = std::chrono::steady_clock::now()) {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return true;
        Pause();
      }
      if (yielded || now < begin + kYield) continue;
      std::this_thread::yield();
      yielded = true;
    }
    return false;
  }

  const bool yields_;
  std::atomic<int> asleep_ = 0;  // an int, because that is what Linux can wait for directly
};

struct Job {
  void (*run)(void* context, int64_t task, int thread);
  void* context;
  int64_t tasks;
};

void RunInOrder(const Job& job, int number) noexcept {
  for (int64_t task = 0; task < job.tasks; ++task) job.run(job.context, task, number);
}

// The threads beside the calling one. How a call goes:
// - The caller writes job_ and unfinished_, publishes them by setting unclaimed_ to the number of
//   tasks, and invites as many threads as can find a task.
// - A thread claims a task by taking one from unclaimed_. Finding it positive is the claim, and
//   only a claim allows reading job_, which stays until unfinished_ is 0. A thread that is late
//   claims nothing, or a task of the next job, which it runs like any other.
// - A thread that finds no task left counts those it ran down from unfinished_. So the caller waits
//   for claimed tasks alone, never for a thread that has not woken up.
class Pool {
 public:
  // Never destroyed: a call may still run while the process exits.
  static Pool& Get() {
    static Pool* const pool = new Pool;
    static const AtExit at_exit;
    return *pool;
  }

  // Runs all tasks of the job, this thread being number 0, on Threads() threads. False, with
  // nothing done, while another call runs or after exit has begun.
  bool TryRun(const Job& job) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const Release release{busy_};
    Resize(static_cast<size_t>(Threads() - 1));
    job_ = job;
    unfinished_ = job.tasks;
    unclaimed_ = job.tasks;
    for (size_t i = 0; i < workers_.size() && static_cast<int64_t>(i) < job.tasks - 1; ++i) {
      workers_[i]->Invite();
    }
    RunClaimed(0);
    finished_.Until([this] { return unfinished_ == 0; });
    return true;
  }

 private:
  struct Release {
    ~Release() { busy.store(false, std::memory_order_release); }
    std::atomic<bool>& busy;
  };

  // Ends the threads, and keeps the pool busy so that later calls run alone. While a call runs,
  // threads end with the process: nobody may wait for them, as a task may be what called exit.
  struct AtExit {
    ~AtExit() {
      if (!Get().busy_.exchange(true, std::memory_order_acquire)) Get().Resize(0);
    }
  };

  // Each on cache lines of its own: it looks at invitations_ all the time while it waits.
  class alignas(64) Worker {
   public:
    Worker(Pool& pool, int number) : thread_([this, &pool, number] { Loop(pool, number); }) {}
    ~Worker() {
      stop_ = true;
      Invite();
      thread_.join();
    }

    void Invite() {
      ++invitations_;
      waiter_.Wake();
    }

   private:
    void Loop(Pool& pool, int number) {
      const Inside inside(number);
      for (uint32_t seen = 0; !stop_;) {
        waiter_.Until([&] { return invitations_ != seen; });
        seen = invitations_;
        pool.RunClaimed(number);
      }
    }

    std::atomic<uint32_t> invitations_ = 0;
    std::atomic<bool> stop_ = false;
    Waiter waiter_{true};
    std::thread thread_;  // last: it uses the others
  };

  // Makes workers_ `size` long. A thread that is too many is waited for, not only left uninvited:
  // it could come late and run tasks of a later job under a number that is no longer valid.
  void Resize(size_t size) {
    while (workers_.size() > size) workers_.pop_back();
    while (workers_.size() < size) {
      try {
        workers_.push_back(std::make_unique<Worker>(*this, static_cast<int>(workers_.size()) + 1));
      } catch (const std::system_error& error) {
        throw Error(ErrorKind::kResource, fmt::format("cannot start {} threads", size + 1),
                    error.what(), "use fewer threads");
      }
    }
  }

  void RunClaimed(int number) noexcept {
    int64_t done = 0;
    for (int64_t left; (left = unclaimed_.fetch_sub(1)) > 0; ++done) {
      job_.run(job_.context, job_.tasks - left, number);
    }
    if (done > 0 && unfinished_.fetch_sub(done) == done) finished_.Wake();
  }

  std::vector<std::unique_ptr<Worker>> workers_;  // worker i has number i + 1
  std::atomic<bool> busy_ = false;  // held by the call that uses all below and workers_
  Job job_{};
  Waiter finished_{false};
  alignas(64) std::atomic<int64_t> unclaimed_ = 0;  // may be negative: claims that found nothing
  alignas(64) std::atomic<int64_t> unfinished_ = 0;
};

}  // namespace

int Threads() {
  return ThreadCount();
}

void SetThreads(int threads) {
  FOLIO_CHECK(threads >= 1, "at least one thread");
  ThreadCount() = threads;
}

namespace internal {

void ParallelTasks(int64_t tasks, void (*run)(void* context, int64_t task, int thread),
                   void* context) {
  const Job job{run, context, tasks};
  if (t_number >= 0) return RunInOrder(job, t_number);
  const Inside inside(0);
  if (tasks > 1 && Threads() > 1 && Pool::Get().TryRun(job)) return;
  RunInOrder(job, 0);
}

}  // namespace internal
}  // namespace folio
