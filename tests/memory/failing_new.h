#pragma once

#include <cstdint>
#include <functional>

// A program that links failing_new.cc has an operator new that counts live allocations, and fails
// on request.

namespace folio {

// The threads whose allocations are counted and fail.
enum class NewOf { kThisThread, kOtherThreads };

// While it exists, the allocation with the number `n`, counted from 1, throws std::bad_alloc and,
// with `lasting`, all later ones. Only one may exist.
class FailingNew {
 public:
  FailingNew(NewOf which, int64_t n, bool lasting);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;

  bool failed() const;  // true if that allocation was reached
};

// Calls work() with its first allocation failing, then with its second, and so on until no
// allocation has that number; after the first few hundred in growing strides. work() may throw
// std::bad_alloc. After each call, usable() checks that all is as before. Returns how many times
// work() was called.
int64_t WithEachFailing(NewOf which, const std::function<void()>& work,
                        const std::function<void()>& usable);

// Bytes that all threads have allocated now, and the maximum since the count was reset.
int64_t LiveBytes();
int64_t PeakLiveBytes();
void ResetPeakLiveBytes();

}  // namespace folio
