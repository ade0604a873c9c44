#include "folio/base/thread_pool.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <iterator>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/fork.h"
#include "folio/base/machine.h"
#include "folio/base/steady_threads.h"

namespace folio {
namespace {

// How long a waiting thread stays awake: longer than the pauses between the operations of a small
// model, short enough to free the processor soon for other work. Linux takes 30 to 50 us to wake a
// thread up, and longer on a busy machine.
constexpr std::chrono::microseconds kSpin{200};

std::atomic<int>& ThreadCount() {
  static std::atomic<int> threads = std::min(kMaxThreads, UsableCores(ProcessorsOfThisProcess()));
  return threads;
}

// The number of threads of a SteadyThreads on this thread, 0 for none.
thread_local constinit int t_steady = 0;

// Blocks signals from outside in this thread: handlers run on the program's own threads. Signals
// raised by an instruction of the thread itself are still delivered.
void BlockOutsideSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&signals, own);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// The number of this thread in the ParallelFor that it is in; -1 outside of one.
thread_local constinit int t_number = -1;

// While it exists, this thread is thread `number` of a ParallelFor.
struct Inside {
  explicit Inside(int number) { t_number = number; }
  ~Inside() { t_number = -1; }
  Inside(const Inside&) = delete;
};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Lets one thread wait for what others change: awake for kSpin, then asleep. No wake-up is lost,
// given that the change and what `ready` reads are sequentially consistent and that Wake follows
// the change: either `ready`, which runs after asleep_ is set, sees the change, or Wake sees
// asleep_. A late Wake ends some later sleep early, which then continues.
class Waiter {
 public:
  // `blocks()` returns true if this thread seems to occupy the processor of the one that it waits
  // for, as may happen on a busy machine: then it yields.
  void Until(auto ready, auto blocks) {
    if (SpinUntil(ready, blocks)) return;
    for (asleep_ = 1; !ready(); asleep_ = 1) asleep_.wait(1);
    asleep_ = 0;
  }

  void Wake() {
    if (asleep_ == 0) return;
    asleep_ = 0;
    asleep_.notify_one();
  }

 private:
  static bool SpinUntil(auto ready, auto blocks) {
    if (ready()) return true;
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return true;
        Pause();
      }
      if (blocks()) std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  std::atomic<int> asleep_ = 0;  // an int, because that is what Linux can wait for directly
};

// The first exception that one of the tasks throws.
struct Failure {
  std::atomic<bool> any = false;
  std::exception_ptr thrown;
};

struct Job {
  void (*run)(void* context, int64_t task, int thread) = nullptr;
  void* context = nullptr;
  int64_t tasks = 0;
  Failure* failure = nullptr;

  void Run(int64_t task, int number) const noexcept {
    try {
      run(context, task, number);
    } catch (...) {
      if (!failure->any.exchange(true)) failure->thrown = std::current_exception();
    }
  }
};

void RunInOrder(const Job& job, int number) {
  for (int64_t task = 0; task < job.tasks; ++task) job.Run(task, number);
}

// The threads beside the calling one. How a call goes:
// - The caller writes job_ and unfinished_, publishes them by giving each thread a range of the
//   tasks, and invites as many threads as can find one.
// - A thread claims tasks from the front of its own range, so that what one operation left in its
//   cache is there for the next, and then from the ends of the others'. Taking a task out of a
//   range is the claim, and only a claim allows reading job_, which stays until unfinished_ is 0. A
//   thread that is late claims nothing, or a task of the next job, which it runs like any other.
// - A thread that finds no task left counts those it ran down from unfinished_. So the caller waits
//   for claimed tasks alone, never for a thread that has not woken up.
class Pool {
 public:
  // Never destroyed: a call may still run while the process exits. A child process has its own,
  // since the threads of its parent's do not exist there.
  static Pool& Get() {
    static constinit std::atomic<Pool*> current = nullptr;
    static const AtExit at_exit;
    for (Pool* pool = current;;) {
      if (pool != nullptr && pool->forks_ == ForksSoFar()) return *pool;
      Pool* const made = new Pool(pool);
      if (current.compare_exchange_strong(pool, made)) return *made;
      delete made;
    }
  }

  explicit Pool(const Pool* parents) : parents_(parents) {}

  // Runs all tasks of the job on Threads() threads, this thread being number 0. Returns false, with
  // nothing done, while another call runs or after exit has begun.
  bool TryRun(const Job& job) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const Release release{busy_};
    Resize(static_cast<size_t>(Threads() - 1));
    job_ = job;
    caller_processor_.store(ThisProcessor(), std::memory_order_relaxed);
    unfinished_ = job.tasks;
    const int64_t threads = std::min<int64_t>(std::ssize(workers_) + 1, job.tasks);
    sharing_ = static_cast<int>(threads);
    for (int64_t i = 0; i < threads; ++i) {
      ranges_[static_cast<size_t>(i)].Give(job.tasks * i / threads, job.tasks * (i + 1) / threads);
    }
    for (int64_t i = 1; i < threads; ++i) workers_[static_cast<size_t>(i - 1)]->Invite();
    RunClaimed(0);
    finished_.Until([this] { return unfinished_ == 0; }, [this] { return BlocksAWorker(); });
    return true;
  }

 private:
  struct Release {
    ~Release() { busy.store(false, std::memory_order_release); }
    std::atomic<bool>& busy;
  };

  // Ends the threads, and marks the pool as busy so that later calls run on their own thread. While
  // a call runs, threads end with the process: waiting for them could deadlock, since a task may
  // have called exit.
  struct AtExit {
    ~AtExit() {
      if (!Get().busy_.exchange(true, std::memory_order_acquire)) Get().Resize(0);
    }
  };

  // Tasks [begin, end) that are not claimed yet, on a cache line of its own.
  class alignas(64) Range {
   public:
    void Give(int64_t begin, int64_t end) { range_ = Pack(begin, end); }
    // A task from the front, or from the end; -1 if there is none.
    int64_t Claim(bool front) {
      uint64_t seen = range_;
      for (;;) {
        const int64_t begin = static_cast<int64_t>(seen >> 32);
        const int64_t end = static_cast<int64_t>(seen & 0xFFFFFFFF);
        if (begin >= end) return -1;
        const uint64_t rest = front ? Pack(begin + 1, end) : Pack(begin, end - 1);
        if (range_.compare_exchange_weak(seen, rest)) return front ? begin : end - 1;
      }
    }

   private:
    static uint64_t Pack(int64_t begin, int64_t end) {
      return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
    }
    std::atomic<uint64_t> range_ = 0;
  };

  // Has cache lines of its own: it polls invitations_ while it waits.
  class alignas(64) Worker {
   public:
    Worker(Pool& pool, int number) : thread_([this, &pool, number] { Loop(pool, number); }) {}
    ~Worker() {
      stop_ = true;
      Invite();
      thread_.join();
    }

    // The processor on which it last looked for tasks, -1 when it has found none.
    int processor() const { return processor_.load(std::memory_order_relaxed); }

    void Invite() {
      ++invitations_;
      waiter_.Wake();
    }

   private:
    void Loop(Pool& pool, int number) {
      const Inside inside(number);
      BlockOutsideSignals();
      for (uint32_t seen = 0; !stop_;) {
        waiter_.Until([&] { return invitations_ != seen; },
                      [&pool] { return IsOnProcessor(pool.caller_processor_); });
        seen = invitations_;
        processor_.store(ThisProcessor(), std::memory_order_relaxed);
        pool.RunClaimed(number);
        processor_.store(-1, std::memory_order_relaxed);
      }
    }

    std::atomic<uint32_t> invitations_ = 0;
    std::atomic<bool> stop_ = false;
    std::atomic<int> processor_ = -1;
    Waiter waiter_;
    std::thread thread_;  // declared last: it uses the others
  };

  // Makes workers_ `size` long. Joins the threads that are too many instead of only leaving them
  // uninvited: a late one could run tasks of a later job under a number that is no longer valid.
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

  bool BlocksAWorker() const {
    return std::ranges::any_of(
        workers_, [](const auto& worker) { return IsOnProcessor(worker->processor()); });
  }

  void RunClaimed(int number) noexcept {
    int64_t done = 0;
    const auto run = [&](Range& range, bool front) {
      for (int64_t task; (task = range.Claim(front)) >= 0; ++done) {
        job_.Run(task, number);
      }
    };
    run(ranges_[static_cast<size_t>(number)], true);
    const int sharing = sharing_;
    for (int i = 1; i <= sharing; ++i) {
      run(ranges_[static_cast<size_t>((number + i) % sharing)], false);
    }
    if (done > 0 && unfinished_.fetch_sub(done) == done) finished_.Wake();
  }

  const uint64_t forks_ = ForksSoFar();           // at construction
  [[maybe_unused]] const Pool* const parents_;    // the pool of the parent process, kept since its
                                                  // state may be inconsistent
  std::vector<std::unique_ptr<Worker>> workers_;  // worker i has number i + 1
  std::atomic<bool> busy_ = false;  // held by the call that uses workers_ and everything below
  Job job_{};
  Waiter finished_;
  std::atomic<int> caller_processor_ = -1;  // where the last call came from
  std::atomic<int> sharing_ = 1;            // threads that the last call gave ranges
  std::array<Range, static_cast<size_t>(kMaxThreads)> ranges_;  // thread i's range
  alignas(64) std::atomic<int64_t> unfinished_ = 0;
};

}  // namespace

int Threads() {
  return t_steady > 0 ? t_steady : ThreadCount().load();
}

SteadyThreads::SteadyThreads() : outer_(t_steady) {
  t_steady = Threads();
}
SteadyThreads::~SteadyThreads() {
  t_steady = outer_;
}

void SetThreads(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    throw Error(ErrorKind::kUsage, fmt::format("cannot use {} threads", threads),
                fmt::format("expected 1 to {}", kMaxThreads));
  }
  ThreadCount() = threads;
  if (t_steady > 0) t_steady = threads;  // SetThreads inside of a SteadyThreads applies to it
}

namespace internal {

void ParallelTasks(int64_t tasks, void (*run)(void* context, int64_t task, int thread),
                   void* context) {
  FOLIO_CHECK(tasks <= UINT32_MAX, "too many tasks");
  Failure failure;
  const Job job{run, context, tasks, &failure};
  if (t_number >= 0) {
    RunInOrder(job, t_number);
  } else {
    const Inside first(0);
    const bool shared = tasks > 1 && Threads() > 1 && Pool::Get().TryRun(job);
    if (!shared) RunInOrder(job, 0);
  }
  if (failure.any) std::rethrow_exception(failure.thrown);
}

}  // namespace internal
}  // namespace folio
