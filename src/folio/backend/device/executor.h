#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "folio/backend/device/fiber.h"
#include "folio/backend/device/kernel.h"

namespace folio::device {

// Runs launches of kernels on the host, for tests, in one thread. Threads of a block are fibers;
// between any two points where they meet they go on in an order drawn anew from `seed`, and so do
// blocks. Shared memory is filled with 0xFF, which is NaN in every number type, before each block,
// and so are the red zones around each of its arrays.
//
// A launch that no device accepts, and a kernel that would hang or is undefined there, is a
// kRuntime Error with the kernel and the line: threads that wait at different barriers, or for
// threads that have left; lanes that meet in different calls, outside of their own lanes, or with
// lanes that have left; bytes written outside of an array of shared memory. What lies in device
// memory is not watched.
class Executor {
 public:
  explicit Executor(uint64_t seed);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Calls `thread` as each thread of the launch.
  void Run(const LaunchShape& shape, const std::function<void()>& thread);

 private:
  friend int ThreadInBlock();
  friend int BlockThreads();
  friend int64_t BlockX();
  friend int64_t BlockY();
  friend void Barrier(Place place);
  friend void* SharedArray(size_t bytes, Place place);
  friend void* DynamicSharedArray();
  friend const uint64_t* Meet(uint64_t bits, uint32_t lanes, Place place);
  friend void RequireLane(int lane, uint32_t lanes, Place place);

  struct Thread;
  struct Meeting;
  struct Array {
    Place place;
    size_t offset = 0, bytes = 0;
  };

  static Executor& Running();
  static void ThreadMain();

  uint64_t Draw(uint64_t n);  // uniform in [0, n)
  void RunBlock(const LaunchShape& shape);
  void RunThreads();
  void Suspend();
  void OpenBarrier();
  const uint64_t* MeetLanes(uint64_t bits, uint32_t lanes, Place place);
  bool AllMeet(const Thread& own) const;
  Meeting* FreeMeeting();
  void* AddArray(size_t bytes, Place place);
  void CheckRedZones() const;
  [[noreturn]] void Fail(const std::string& cause) const;
  std::string StateOf(const Thread& thread) const;

  uint64_t random_;
  Fiber host_;
  std::vector<std::unique_ptr<Thread>> threads_;  // kept from launch to launch
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<Thread*> ready_;
  std::vector<std::byte> shared_;  // arrays of the block with red zones between them
  std::vector<Array> arrays_;      // the first is the dynamic one

  // The launch that runs, and its block and thread.
  const LaunchShape* shape_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  int64_t block_ = 0;
  int left_ = 0;  // threads of the block that have returned
  Thread* thread_ = nullptr;
  std::exception_ptr error_ = nullptr;
};

}  // namespace folio::device
