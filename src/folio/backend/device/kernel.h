#pragma once

// The means of kernels. Kernels are functions in headers that two compilers read: nvcc for a
// GPU, and the C++ compiler for the executor (executor.h), which runs them on the host in tests.
// This header is the only one in which the two differ.
//
// A kernel is a template or function marked FOLIO_KERNEL whose arguments are passed by value:
// numbers and pointers into the device's memory. Functions that kernels call are marked
// FOLIO_DEVICE. Shared memory is declared by FOLIO_SHARED and FOLIO_DYNAMIC_SHARED, and holds
// anything until it is written. Kernels use no standard library but <cmath>'s functions of C, and
// no atomic operations: their results do not depend on the order of threads and blocks. Blocks of
// one launch do not talk to each other: a second launch sees what the first one wrote.

#include <math.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <functional>
#endif

namespace folio::device {

inline constexpr int kWarp = 32;  // threads that meet in warp functions
inline constexpr uint32_t kAllLanes = 0xffffffff;

// The limits of a launch on every device.
inline constexpr int kMaxThreads = 1024;
inline constexpr size_t kMaxSharedBytes = size_t{227} * 1024;
inline constexpr int64_t kMaxBlocks = 0x7fffffff, kMaxBlocksY = 65535;

// One launch of a kernel: a grid of blocks of threads.
struct LaunchShape {
  const char* kernel = "";  // its name in errors
  int64_t blocks = 1, blocks_y = 1;
  int threads = kWarp;      // of a block
  size_t shared_bytes = 0;  // of FOLIO_DYNAMIC_SHARED
};

#ifdef __CUDACC__

#define FOLIO_KERNEL __global__
#define FOLIO_DEVICE __device__ inline

// An array of a block, with a constant count.
#define FOLIO_SHARED(T, name, count) __shared__ T name[count]
// The array of a block that has the launch's shared_bytes; at most one in a kernel.
#define FOLIO_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char folio_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(folio_dynamic_shared)

// Where launches go: they begin in order.
struct Queue {
  cudaStream_t stream;
};

FOLIO_DEVICE int ThreadInBlock() {
  return static_cast<int>(threadIdx.x);
}
FOLIO_DEVICE int BlockThreads() {
  return static_cast<int>(blockDim.x);
}
FOLIO_DEVICE int64_t BlockX() {
  return blockIdx.x;
}
FOLIO_DEVICE int64_t BlockY() {
  return blockIdx.y;
}

// Waits for all threads of the block, which all call it in the same place.
FOLIO_DEVICE void Barrier() {
  __syncthreads();
}
// Waits for these lanes of the warp, which then see each other's writes.
FOLIO_DEVICE void WarpBarrier(uint32_t lanes = kAllLanes) {
  __syncwarp(lanes);
}
// The value of lane (own lane ^ distance). All of `lanes` call it in the same place.
template <class T>
FOLIO_DEVICE T ShuffleXor(T value, int distance, uint32_t lanes = kAllLanes) {
  return __shfl_xor_sync(lanes, value, distance);
}
// Bit l says whether lane l, one of `lanes`, gave true.
FOLIO_DEVICE uint32_t Ballot(bool value, uint32_t lanes = kAllLanes) {
  return __ballot_sync(lanes, value);
}

// Begins a launch.
template <class... Parameters, class... Arguments>
void Launch(Queue& queue, const LaunchShape& shape, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  const dim3 grid(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y));
  kernel<<<grid, static_cast<unsigned>(shape.threads), shape.shared_bytes, queue.stream>>>(
      arguments...);
}

#else

#define FOLIO_KERNEL inline
#define FOLIO_DEVICE inline
#define FOLIO_SHARED(T, name, count) \
  T* const name =                    \
      static_cast<T*>(::folio::device::SharedArray(sizeof(T) * static_cast<size_t>(count)))
#define FOLIO_DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::folio::device::DynamicSharedArray())

// A call in a kernel.
struct Place {
  const char* file = "";
  int line = 0;

  // As a default argument: where the function with that argument is called.
  static constexpr Place Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

class Executor;
using Queue = Executor;

// The functions above, in executor.cc; each refers to the thread that runs.
int ThreadInBlock();
int BlockThreads();
int64_t BlockX();
int64_t BlockY();
void Barrier(Place place = Place::Here());
void* SharedArray(size_t bytes, Place place = Place::Here());
void* DynamicSharedArray();

// All `lanes` of the warp leave 64 bits each and get everybody's, until the thread meets others
// again. Every function of warps is made of it.
const uint64_t* Meet(uint64_t bits, uint32_t lanes, Place place);
// Ends the launch with an error if the thread's lane wants something of a lane that is not there.
void RequireLane(int lane, uint32_t lanes, Place place);

inline void WarpBarrier(uint32_t lanes = kAllLanes, Place place = Place::Here()) {
  Meet(0, lanes, place);
}

template <class T>
T ShuffleXor(T value, int distance, uint32_t lanes = kAllLanes, Place place = Place::Here()) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  const int other = (ThreadInBlock() % kWarp) ^ distance;
  RequireLane(other, lanes, place);
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  memcpy(&value, Meet(bits, lanes, place) + other, sizeof(T));
  return value;
}

inline uint32_t Ballot(bool value, uint32_t lanes = kAllLanes, Place place = Place::Here()) {
  const uint64_t* all = Meet(value ? 1 : 0, lanes, place);
  uint32_t ballot = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0 && all[lane] != 0) ballot |= uint32_t{1} << lane;
  }
  return ballot;
}

// Runs `thread` as each thread of a launch, to its end.
void Execute(Queue& queue, const LaunchShape& shape, const std::function<void()>& thread);

template <class... Parameters, class... Arguments>
void Launch(Queue& queue, const LaunchShape& shape, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  Execute(queue, shape, [&] { kernel(arguments...); });
}

#endif

}  // namespace folio::device
