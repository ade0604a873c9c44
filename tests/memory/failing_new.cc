#include "failing_new.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> failing = false, lasting = false, failed = false;
std::atomic<int64_t> until_failure = 0;
std::atomic<int64_t> live = 0, peak = 0;
folio::NewOf whose = folio::NewOf::kThisThread;
thread_local bool is_that_thread = false;

bool Fails() {
  if (!failing || is_that_thread != (whose == folio::NewOf::kThisThread)) return false;
  const int64_t left = --until_failure;
  if (left > 0 || (left < 0 && !lasting)) return false;
  failed = true;
  return true;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (Fails()) throw std::bad_alloc();
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  const auto size = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = live.fetch_add(size) + size;
  for (int64_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return memory;
}

void* AllocateOrNull(size_t bytes) {
  try {
    return Allocate(bytes, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Free(void* memory) {
  if (memory != nullptr) live -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// All forms that the language does not define by others, so that a sanitizer's forms are never
// mixed with these.
void* operator new(size_t bytes) {
  return Allocate(bytes, 1);
}
void* operator new[](size_t bytes) {
  return Allocate(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateOrNull(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateOrNull(bytes);
}
void operator delete(void* memory) noexcept {
  Free(memory);
}
void operator delete[](void* memory) noexcept {
  Free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  Free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  Free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  Free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  Free(memory);
}

namespace folio {

FailingNew::FailingNew(NewOf which, int64_t n, bool stays) {
  whose = which;
  lasting = stays;
  ::failed = false;
  until_failure = n;
  is_that_thread = true;
  failing = true;
}

FailingNew::~FailingNew() {
  failing = false;
  is_that_thread = false;
}

bool FailingNew::failed() const {
  return ::failed;
}

int64_t WithEachFailing(NewOf which, const std::function<void()>& work,
                        const std::function<void()>& usable) {
  constexpr int64_t kEach = 250;
  int64_t calls = 0;
  for (const bool stays : {false, true}) {
    bool any = true;
    for (int64_t n = 1; any; n += n < kEach ? 1 : n / 40) {
      {
        const FailingNew fails(which, n, stays);
        try {
          work();
        } catch (const std::bad_alloc&) {
        }
        any = fails.failed();
      }
      ++calls;
      usable();
    }
  }
  return calls;
}

int64_t LiveBytes() {
  return live;
}
int64_t PeakLiveBytes() {
  return peak;
}
void ResetPeakLiveBytes() {
  peak = live.load();
}

}  // namespace folio
