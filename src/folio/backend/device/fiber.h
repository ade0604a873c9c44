#pragma once

#include <cstddef>
#include <memory>

namespace folio::device {

// A function with a stack of its own, which is left and continued by Switch.
class Fiber {
 public:
  // The fiber of the caller, which has its stack already.
  Fiber();
  // A fiber that calls main(), which must never return, when it is first switched to.
  Fiber(size_t stack_bytes, void (*main)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, which is running, and continues `to`. Returns when something switches back.
  static void Switch(Fiber& from, Fiber& to);

  // Must be the first call in main(): `from` is the fiber that was left for it.
  static void Entered(Fiber& from);

 private:
  struct Context;

  std::unique_ptr<std::byte[]> stack_;
  std::unique_ptr<Context> context_;
};

}  // namespace folio::device
