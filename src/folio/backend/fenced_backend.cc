#include "folio/backend/fenced_backend.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/operands.h"
#include "folio/base/check.h"
#include "folio/tensor/tensor.h"

namespace folio {
namespace {

// A block of fenced memory.
struct Fenced {
  struct Part {
    std::string name;
    size_t offset, bytes;
  };

  std::byte* begin = nullptr;
  size_t bytes = 0;
  std::vector<Part> parts = {};
  std::string_view last = {};  // the last operation, where it is freed

  bool Has(const std::byte* at) const { return at >= begin && at < begin + bytes; }
  // Buffers may share a place, so there may be several names.
  std::string NamesAt(const std::byte* at) const {
    const auto offset = static_cast<size_t>(at - begin);
    std::string names;
    for (const Part& part : parts) {
      if (offset < part.offset || offset >= part.offset + part.bytes) continue;
      names += (names.empty() ? "" : " or ") + part.name;
    }
    return names;
  }
};

class FencedMemory;

// All fenced memories, and the blocks that were freed last, which stay out of reach: for the
// handler of a stray access. Several threads may make them at once.
struct AllFenced {
  static constexpr size_t kMostFreed = 64;

  std::mutex mutex;
  std::vector<const FencedMemory*> memories;
  std::deque<Fenced> freed;
};
AllFenced& All() {
  static AllFenced all;
  return all;
}

void OnStrayAccess(int signal, siginfo_t* info, void*);
// Names what lies there, its memory and the last operation, and one that is begun but not done.
std::string Describe(const std::byte* at);

class FencedMemory final : public Memory {
 public:
  // `run_pending` runs the operations that were begun; `pending_at` names one of them that has an
  // operand in the buffer at this address, or none.
  FencedMemory(int64_t row_multiple, std::function<void()> run_pending,
               std::function<std::string_view(const std::byte*)> pending_at)
      : row_multiple_(row_multiple),
        run_pending_(std::move(run_pending)),
        pending_at_(std::move(pending_at)) {
    const std::scoped_lock lock(All().mutex);
    All().memories.push_back(this);
    struct sigaction action = {};
    action.sa_sigaction = OnStrayAccess;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  ~FencedMemory() override {
    const std::scoped_lock lock(All().mutex);
    std::erase(All().memories, this);
  }

  bool on_host() const override { return false; }
  int64_t row_multiple() const override { return row_multiple_; }

  std::byte* Allocate(size_t bytes, std::span<const NamedPart> parts) override {
    Fenced block{.bytes = bytes};
    for (const NamedPart& part : parts) {
      block.parts.push_back({std::string(part.name), part.offset, part.bytes});
    }
    void* const memory =
        mmap(nullptr, block.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    block.begin = static_cast<std::byte*>(memory);
    const std::scoped_lock lock(mutex_);
    blocks_.push_back(std::move(block));
    return blocks_.back().begin;
  }

  void Free(std::byte* memory, size_t bytes) override {
    run_pending_();
    const std::scoped_lock lock(mutex_, All().mutex);
    const auto block = std::ranges::find(blocks_, memory, &Fenced::begin);
    FOLIO_CHECK(block != blocks_.end(), "memory is freed that was not allocated");
    madvise(memory, bytes, MADV_DONTNEED);
    std::deque<Fenced>& freed = All().freed;
    freed.push_back(std::move(*block));
    freed.back().last = last_;
    blocks_.erase(block);
    if (freed.size() <= AllFenced::kMostFreed) return;
    munmap(freed.front().begin, freed.front().bytes);
    freed.pop_front();
  }

  void Write(const std::byte* host, std::byte* to, size_t bytes) override {
    Copy("Write", to, bytes, [&] { std::memcpy(to, host, bytes); });
  }
  void Read(const std::byte* from, std::byte* host, size_t bytes) override {
    Copy("Read", from, bytes, [&] { std::memcpy(host, from, bytes); });
  }

  // Calls f, which may read and write the blocks that have these places.
  void Open(std::string_view operation, const std::vector<const std::byte*>& places,
            const std::function<void()>& f) {
    const std::scoped_lock lock(mutex_);
    last_ = operation;
    Protect(places, PROT_READ | PROT_WRITE);
    f();
    Protect(places, PROT_NONE);
  }

  bool Has(const std::byte* at) const {
    const std::scoped_lock lock(mutex_);
    return std::ranges::any_of(blocks_, [&](const Fenced& block) { return block.Has(at); });
  }
  // The names of what lies there; empty if that is elsewhere. For the handler, which takes no lock.
  std::string NamesAt(const std::byte* at) const {
    for (const Fenced& block : blocks_) {
      if (block.Has(at)) return block.NamesAt(at);
    }
    return "";
  }
  std::string_view last() const { return last_; }
  std::string_view PendingAt(const std::byte* at) const { return pending_at_(at); }

 private:
  void Copy(std::string_view name, const std::byte* at, size_t bytes,
            const std::function<void()>& copy) {
    run_pending_();
    if (bytes == 0) return;
    FOLIO_CHECK(Has(at) && Has(at + bytes - 1),
                fmt::format("{} outside of this memory: {}", name, Describe(at)));
    Open(name, {at}, copy);
  }

  void Protect(const std::vector<const std::byte*>& places, int how) {
    for (const Fenced& block : blocks_) {
      const auto has = [&](const std::byte* place) { return block.Has(place); };
      if (std::ranges::any_of(places, has)) mprotect(block.begin, block.bytes, how);
    }
  }

  int64_t row_multiple_;
  std::function<void()> run_pending_;
  std::function<std::string_view(const std::byte*)> pending_at_;
  mutable std::mutex mutex_;
  std::vector<Fenced> blocks_;
  std::string_view last_ = "none";
};

std::string Describe(const std::byte* at) {
  for (const FencedMemory* memory : All().memories) {
    const std::string names = memory->NamesAt(at);
    if (names.empty()) continue;
    const std::string_view pending = memory->PendingAt(at);
    return fmt::format("{} in a backend's memory; the last operation was {}{}{}", names,
                       memory->last(), pending.empty() ? "" : "; not done is ", pending);
  }
  for (const Fenced& block : All().freed) {
    if (!block.Has(at)) continue;
    return fmt::format("{} in memory that was freed; the last operation was {}", block.NamesAt(at),
                       block.last);
  }
  return "memory that is no backend's";
}

// The process ends where this returns, so that what is not safe in a handler does no harm.
void OnStrayAccess(int signal, siginfo_t* info, void*) {
  const std::string message =
      fmt::format("the host touches {}\n", Describe(static_cast<const std::byte*>(info->si_addr)));
  static_cast<void>(write(STDERR_FILENO, message.data(), message.size()) < 0);
  ::signal(signal, SIG_DFL);
}

class FencedBackend final : public GenericBackend<FencedBackend> {
 public:
  FencedBackend(FencedOrder order, const FencedForm& form)
      : order_(order),
        form_(form),
        memory_(
            form.row_multiple, [this] { Wait(); },
            [this](const std::byte* at) { return PendingAt(at); }) {}
  ~FencedBackend() override { Wait(); }

  std::string name() const override { return "fenced"; }
  std::string description() const override {
    return fmt::format("{}, in memory that the host cannot touch", cpu_->description());
  }
  bool Supports(Dtype dtype) const override { return cpu_->Supports(dtype); }
  Dtype PreferredDtype() const override { return cpu_->PreferredDtype(); }
  std::string ProductUnit(Dtype dtype) const override { return cpu_->ProductUnit(dtype); }
  BackendPreferences preferences() const override { return form_.preferences; }
  Memory& memory() override { return memory_; }

  void Wait() override {
    const std::scoped_lock lock(mutex_);
    for (const Pending& operation : std::exchange(pending_, {})) operation.run();
  }

  template <class Op>
  void Apply(const Op& op) {
    std::vector<const std::byte*> places;
    for (const Operand& operand : Operands(op)) {
      FOLIO_CHECK(operand.count() == 0 || memory_.Has(operand.data()),
                  fmt::format("{} of {} is not in the backend's memory: {}", operand.name,
                              Op::kName, Describe(operand.data())));
      places.push_back(operand.data());
    }
    const std::scoped_lock lock(mutex_);
    pending_.push_back({Op::kName, places, [this, op, places] {
                          memory_.Open(Op::kName, places, [&] { cpu_->Run(op); });
                        }});
    if (order_ == FencedOrder::kAtOnce) Wait();
  }

 private:
  // An operation that was begun.
  struct Pending {
    std::string_view name;
    std::vector<const std::byte*> places;  // of its operands
    std::function<void()> run;
  };

  std::string_view PendingAt(const std::byte* at) const {
    const std::string names = memory_.NamesAt(at);
    for (const Pending& operation : pending_) {
      const auto same = [&](const std::byte* place) { return memory_.NamesAt(place) == names; };
      if (std::ranges::any_of(operation.places, same)) return operation.name;
    }
    return "";
  }

  FencedOrder order_;
  FencedForm form_;
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend();
  std::recursive_mutex mutex_;  // a thread that writes a checkpoint reads the memory
  std::vector<Pending> pending_;
  FencedMemory memory_;
};

}  // namespace

std::unique_ptr<Backend> MakeFencedBackend(FencedOrder order, const FencedForm& form) {
  return std::make_unique<FencedBackend>(order, form);
}

}  // namespace folio
