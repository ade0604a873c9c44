#include "folio/backend/fenced_backend.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
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

// All fenced memories, for the handler of a stray access; several threads may make them at once.
std::mutex memories_mutex;
std::vector<const FencedMemory*>& Memories() {
  static std::vector<const FencedMemory*> memories;
  return memories;
}

void OnStrayAccess(int signal, siginfo_t* info, void*);

class FencedMemory final : public Memory {
 public:
  explicit FencedMemory(std::function<void()> run_pending) : run_pending_(std::move(run_pending)) {
    const std::scoped_lock lock(memories_mutex);
    Memories().push_back(this);
    struct sigaction action = {};
    action.sa_sigaction = OnStrayAccess;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  ~FencedMemory() override {
    const std::scoped_lock lock(memories_mutex);
    std::erase(Memories(), this);
  }

  bool on_host() const override { return false; }

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
    const std::scoped_lock lock(mutex_);
    std::erase_if(blocks_, [&](const Fenced& block) { return block.begin == memory; });
    munmap(memory, bytes);
  }

  void Write(const std::byte* host, std::byte* to, size_t bytes) override {
    run_pending_();
    Open("Write", {to}, [&] { std::memcpy(to, host, bytes); });
  }
  void Read(const std::byte* from, std::byte* host, size_t bytes) override {
    run_pending_();
    Open("Read", {from}, [&] { std::memcpy(host, from, bytes); });
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
    return std::ranges::any_of(blocks_, [&](const Fenced& block) { return block.Has(at); });
  }
  // The names of what lies there; empty if that is elsewhere.
  std::string NamesAt(const std::byte* at) const {
    for (const Fenced& block : blocks_) {
      if (block.Has(at)) return block.NamesAt(at);
    }
    return "";
  }
  std::string_view last() const { return last_; }

 private:
  void Protect(const std::vector<const std::byte*>& places, int how) {
    for (const Fenced& block : blocks_) {
      const auto has = [&](const std::byte* place) { return block.Has(place); };
      if (std::ranges::any_of(places, has)) mprotect(block.begin, block.bytes, how);
    }
  }

  std::function<void()> run_pending_;
  std::mutex mutex_;
  std::vector<Fenced> blocks_;
  std::string_view last_ = "none";
};

// The process ends here, so that what is not safe in a handler does no harm.
void OnStrayAccess(int signal, siginfo_t* info, void*) {
  for (const FencedMemory* memory : Memories()) {
    const std::string names = memory->NamesAt(static_cast<const std::byte*>(info->si_addr));
    if (names.empty()) continue;
    const std::string message =
        fmt::format("the host touches {} in a backend's memory; the last operation was {}\n", names,
                    memory->last());
    if (write(STDERR_FILENO, message.data(), message.size()) < 0) break;
    std::abort();
  }
  ::signal(signal, SIG_DFL);
}

class FencedBackend final : public GenericBackend<FencedBackend> {
 public:
  explicit FencedBackend(FencedOrder order) : order_(order) {}
  ~FencedBackend() override { Wait(); }

  std::string name() const override { return "fenced"; }
  std::string description() const override {
    return fmt::format("{}, in memory that the host cannot touch", cpu_->description());
  }
  bool Supports(Dtype dtype) const override { return cpu_->Supports(dtype); }
  Dtype PreferredDtype() const override { return cpu_->PreferredDtype(); }
  std::string ProductUnit(Dtype dtype) const override { return cpu_->ProductUnit(dtype); }
  Memory& memory() override { return memory_; }

  void Wait() override {
    const std::scoped_lock lock(mutex_);
    for (const std::function<void()>& operation : std::exchange(pending_, {})) operation();
  }

  template <class Op>
  void Apply(const Op& op) {
    std::vector<const std::byte*> places;
    for (const Operand& operand : Operands(op)) {
      FOLIO_CHECK(operand.count() == 0 || memory_.Has(operand.data()),
                  fmt::format("{} of {} is not in the backend's memory", operand.name, Op::kName));
      places.push_back(operand.data());
    }
    const std::scoped_lock lock(mutex_);
    pending_.push_back(
        [this, op, places] { memory_.Open(Op::kName, places, [&] { cpu_->Run(op); }); });
    if (order_ == FencedOrder::kAtOnce) Wait();
  }

 private:
  FencedOrder order_;
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend();
  std::recursive_mutex mutex_;  // a thread that writes a checkpoint reads the memory
  std::vector<std::function<void()>> pending_;
  FencedMemory memory_{[this] { Wait(); }};
};

}  // namespace

std::unique_ptr<Backend> MakeFencedBackend(FencedOrder order) {
  return std::make_unique<FencedBackend>(order);
}

}  // namespace folio
