#pragma once

#include <cstdint>
#include <functional>

// A program that links failing_new.cc has an operator new that counts what lives, and fails where
// it is told to.

namespace folio {

// Whose allocations are counted and fail.
enum class NewOf { kThisThread, kOtherThreads };

// From here to its end: the allocation with the number `n` from 1 on throws std::bad_alloc and,
// with `lasting`, all behind it. One at a time.
class FailingNew {
 public:
  FailingNew(NewOf of, int64_t n, bool lasting);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;

  bool failed() const;  // there was one of that number
};

// Calls work() with its first allocation failing, then with its second, and so on until none of
// that number is left; behind the first few hundred in growing strides. work() may throw
// std::bad_alloc. After each, usable() looks whether all is as before. Returns how many times
// work() was called.
int64_t WithEachFailing(NewOf of, const std::function<void()>& work,
                        const std::function<void()>& usable);

// Bytes that all threads have allocated now, and the most since the count was reset.
int64_t LiveBytes();
int64_t PeakLiveBytes();
void ResetPeakLiveBytes();

}  // namespace folio
