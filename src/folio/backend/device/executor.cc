#include "folio/backend/device/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio::device {

namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr size_t kRedZone = 64;  // also the alignment of arrays
constexpr size_t kMaxArrays = 32;
constexpr std::byte kUnset{0xFF};

thread_local Executor* running = nullptr;

std::string NameOf(const Place& place) {
  const std::string_view file = place.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), place.line);
}

bool SamePlace(const Place& a, const Place& b) {
  return a.line == b.line && (a.file == b.file || std::string_view(a.file) == b.file);
}

}  // namespace

// The bits that the lanes of one meeting left.
struct Executor::Meeting {
  std::array<uint64_t, kWarp> bits;
  int readers = 0;  // lanes that have not read them yet
};

struct Executor::Thread {
  enum class State : uint8_t { kRuns, kAtBarrier, kMeets, kLeft };

  explicit Thread(int place_in_block)
      : number(place_in_block), fiber(kStackBytes, &Executor::ThreadMain) {}

  uint32_t own_lane() const { return uint32_t{1} << number % kWarp; }

  const int number;  // in its block
  State state = State::kRuns;
  Place place = {};    // where it waits
  uint32_t lanes = 0;  // with which it meets
  uint64_t bits = 0;
  Meeting* meeting = nullptr;  // the last one, until it is read
  Fiber fiber;
};

Executor::Executor(uint64_t seed) : random_(seed) {}
Executor::~Executor() = default;

Executor& Executor::Running() {
  FOLIO_CHECK(running != nullptr && running->thread_ != nullptr, "no kernel runs");
  return *running;
}

// SplitMix64: G. L. Steele Jr. et al., "Fast splittable pseudorandom number generators", 2014.
uint64_t Executor::Draw(uint64_t n) {
  uint64_t z = random_ += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return (z >> 32) * n >> 32;
}

void Executor::Run(const LaunchShape& shape, const std::function<void()>& thread) {
  FOLIO_CHECK(running == nullptr, "a kernel launches another one");
  shape_ = &shape;
  if (shape.threads < 1 || shape.threads > kMaxThreads) {
    Fail(fmt::format("{} threads in a block, expected 1 to {}", shape.threads, kMaxThreads));
  }
  if (shape.blocks < 1 || shape.blocks > kMaxBlocks || shape.blocks_y < 1 ||
      shape.blocks_y > kMaxBlocksY) {
    Fail(fmt::format("a grid of {} x {} blocks, expected 1 to {} x 1 to {}", shape.blocks,
                     shape.blocks_y, kMaxBlocks, kMaxBlocksY));
  }
  if (shape.shared_bytes > kMaxSharedBytes) {
    Fail(fmt::format("{} bytes of shared memory, expected at most {}", shape.shared_bytes,
                     kMaxSharedBytes));
  }
  body_ = &thread;
  while (std::ssize(threads_) < shape.threads) {
    threads_.push_back(std::make_unique<Thread>(static_cast<int>(threads_.size())));
  }
  std::vector<int64_t> blocks(static_cast<size_t>(shape.blocks * shape.blocks_y));
  std::iota(blocks.begin(), blocks.end(), 0);
  running = this;
  try {
    for (size_t left = blocks.size(); left > 0; --left) {
      std::swap(blocks[left - 1], blocks[Draw(left)]);
      block_ = blocks[left - 1];
      RunBlock(shape);
    }
  } catch (...) {
    running = nullptr;
    thread_ = nullptr;
    threads_.clear();  // some stand in the middle of the kernel
    meetings_.clear();
    throw;
  }
  running = nullptr;
}

void Executor::RunBlock(const LaunchShape& shape) {
  const size_t used = arrays_.empty() ? 0 : arrays_.back().offset + arrays_.back().bytes + kRedZone;
  std::fill_n(shared_.begin(), used, kUnset);
  shared_.resize(kMaxSharedBytes + 2 * kMaxArrays * kRedZone, kUnset);
  arrays_.clear();
  AddArray(shape.shared_bytes, {});
  left_ = 0;
  ready_.clear();
  for (int i = 0; i < shape.threads; ++i) {
    threads_[static_cast<size_t>(i)]->state = Thread::State::kRuns;
    ready_.push_back(threads_[static_cast<size_t>(i)].get());
  }
  RunThreads();
  CheckRedZones();
}

// Continues threads that may go on, each until it waits or returns, until all have returned.
void Executor::RunThreads() {
  while (left_ < shape_->threads) {
    if (ready_.empty()) OpenBarrier();
    std::swap(ready_[Draw(ready_.size())], ready_.back());
    thread_ = ready_.back();
    ready_.pop_back();
    thread_->state = Thread::State::kRuns;
    Fiber::Switch(host_, thread_->fiber);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  thread_ = nullptr;
}

void Executor::ThreadMain() {
  Fiber::Entered(running->host_);
  while (true) {
    Executor& executor = *running;
    try {
      (*executor.body_)();
    } catch (...) {
      executor.error_ = std::current_exception();
    }
    executor.thread_->state = Thread::State::kLeft;
    ++executor.left_;
    executor.Suspend();
  }
}

// Continues the host; returns when the host continues the thread.
void Executor::Suspend() {
  Fiber::Switch(thread_->fiber, host_);
}

// No thread may go on: opens the barrier at which all wait, or throws.
void Executor::OpenBarrier() {
  const Thread& first = *threads_[0];
  for (int i = 0; i < shape_->threads; ++i) {
    const Thread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.state == Thread::State::kMeets) {
      const uint32_t others = thread.lanes & ~thread.own_lane();
      for (int lane = 0; lane < kWarp; ++lane) {
        const int other = thread.number / kWarp * kWarp + lane;
        if ((others >> lane & 1) == 0) continue;
        if (other >= shape_->threads) Fail(StateOf(thread) + ", and its warp is not whole");
        const Thread& waited = *threads_[static_cast<size_t>(other)];
        if (waited.state == Thread::State::kMeets && waited.lanes == thread.lanes &&
            SamePlace(waited.place, thread.place)) {
          continue;
        }
        Fail(StateOf(thread) + ", and " + StateOf(waited));
      }
    }
    if (thread.state != first.state || !SamePlace(thread.place, first.place)) {
      Fail(StateOf(first) + ", and " + StateOf(thread));
    }
  }
  for (int i = 0; i < shape_->threads; ++i) {
    ready_.push_back(threads_[static_cast<size_t>(i)].get());
  }
}

std::string Executor::StateOf(const Thread& thread) const {
  switch (thread.state) {
    case Thread::State::kAtBarrier:
      return fmt::format("thread {} waits at the barrier in {}", thread.number,
                         NameOf(thread.place));
    case Thread::State::kMeets:
      return fmt::format("thread {} meets lanes {:#010x} in {}", thread.number, thread.lanes,
                         NameOf(thread.place));
    case Thread::State::kLeft:
      return fmt::format("thread {} has returned", thread.number);
    case Thread::State::kRuns:
      break;
  }
  return fmt::format("thread {} runs", thread.number);
}

// Returns true if all lanes that a thread meets wait for each other in its call.
bool Executor::AllMeet(const Thread& own) const {
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((own.lanes >> lane & 1) == 0) continue;
    const int number = own.number / kWarp * kWarp + lane;
    if (number >= shape_->threads) return false;
    const Thread& other = *threads_[static_cast<size_t>(number)];
    if (other.state != Thread::State::kMeets || other.lanes != own.lanes ||
        !SamePlace(other.place, own.place)) {
      return false;
    }
  }
  return true;
}

const uint64_t* Executor::MeetLanes(uint64_t bits, uint32_t lanes, Place place) {
  Thread& own = *thread_;
  own.place = place;
  own.lanes = lanes;
  own.bits = bits;
  own.state = Thread::State::kMeets;
  if ((lanes & own.own_lane()) == 0) Fail(StateOf(own) + ", of which it is none");
  if (AllMeet(own)) {
    Meeting* meeting = FreeMeeting();
    for (int lane = 0; lane < kWarp; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const int number = own.number / kWarp * kWarp + lane;
      Thread& other = *threads_[static_cast<size_t>(number)];
      meeting->bits[static_cast<size_t>(lane)] = other.bits;
      ++meeting->readers;
      other.meeting = meeting;
      other.state = Thread::State::kRuns;
      ready_.push_back(&other);
    }
  }
  Suspend();
  Meeting* meeting = std::exchange(own.meeting, nullptr);
  --meeting->readers;
  return meeting->bits.data();
}

Executor::Meeting* Executor::FreeMeeting() {
  for (const auto& meeting : meetings_) {
    if (meeting->readers == 0) return meeting.get();
  }
  return meetings_.emplace_back(std::make_unique<Meeting>()).get();
}

void* Executor::AddArray(size_t bytes, Place place) {
  size_t total = bytes, end = 0;
  for (const Array& array : arrays_) {
    total += array.bytes;
    end = array.offset + array.bytes;
  }
  if (total > kMaxSharedBytes) {
    Fail(fmt::format("{} bytes of shared memory with the array in {}, expected at most {}", total,
                     NameOf(place), kMaxSharedBytes));
  }
  FOLIO_CHECK(arrays_.size() < kMaxArrays, "too many arrays of shared memory");
  const size_t offset = (end + 2 * kRedZone - 1) / kRedZone * kRedZone;
  arrays_.push_back({place, offset, bytes});
  return shared_.data() + offset;
}

void Executor::CheckRedZones() const {
  size_t begin = 0;
  for (size_t i = 0; i <= arrays_.size(); ++i) {
    const size_t end = i < arrays_.size() ? arrays_[i].offset : begin + kRedZone;
    for (size_t at = begin; at < end; ++at) {
      if (shared_[at] == kUnset) continue;
      const Array& array = arrays_[i > 0 ? i - 1 : 0];
      Fail(
          fmt::format("a byte outside of an array of shared memory was written, at {} of the {} "
                      "bytes of {}",
                      static_cast<int64_t>(at) - static_cast<int64_t>(array.offset), array.bytes,
                      &array == arrays_.data() ? "the dynamic one" : NameOf(array.place)));
    }
    if (i < arrays_.size()) begin = arrays_[i].offset + arrays_[i].bytes;
  }
}

void Executor::Fail(const std::string& cause) const {
  throw RuntimeError(fmt::format("kernel {}", shape_->kernel),
                     fmt::format("block {}: {}", block_, cause));
}

int ThreadInBlock() {
  return Executor::Running().thread_->number;
}
int BlockThreads() {
  return Executor::Running().shape_->threads;
}
int64_t BlockX() {
  const Executor& executor = Executor::Running();
  return executor.block_ % executor.shape_->blocks;
}
int64_t BlockY() {
  const Executor& executor = Executor::Running();
  return executor.block_ / executor.shape_->blocks;
}

void Barrier(Place place) {
  Executor& executor = Executor::Running();
  executor.thread_->place = place;
  executor.thread_->state = Executor::Thread::State::kAtBarrier;
  executor.Suspend();
}

void* SharedArray(size_t bytes, Place place) {
  Executor& executor = Executor::Running();
  for (size_t i = 1; i < executor.arrays_.size(); ++i) {
    const Executor::Array& array = executor.arrays_[i];
    if (SamePlace(array.place, place)) return executor.shared_.data() + array.offset;
  }
  return executor.AddArray(bytes, place);
}

void* DynamicSharedArray() {
  Executor& executor = Executor::Running();
  return executor.shared_.data() + executor.arrays_[0].offset;
}

const uint64_t* Meet(uint64_t bits, uint32_t lanes, Place place) {
  return Executor::Running().MeetLanes(bits, lanes, place);
}

void RequireLane(int lane, uint32_t lanes, Place place) {
  if (lane >= 0 && lane < kWarp && (lanes >> lane & 1) != 0) return;
  const Executor& executor = Executor::Running();
  executor.Fail(fmt::format("thread {} reads from lane {} in {}, where lanes {:#010x} meet",
                            executor.thread_->number, lane, NameOf(place), lanes));
}

void Execute(Queue& queue, const LaunchShape& shape, const std::function<void()>& thread) {
  queue.Run(shape, thread);
}

}  // namespace folio::device
