#include "folio/backend/device/fiber.h"

#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FOLIO_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOLIO_ADDRESS_SANITIZER
#endif
#endif
#ifdef FOLIO_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Stores the registers that a function must keep on the caller's stack and its place in *from, and
// takes those of another. ucontext does the same with two calls of the kernel, 50 times slower.
extern "C" void folio_switch_stacks(void** from, void* to);
asm(R"(
.text
.p2align 4
.type folio_switch_stacks, @function
folio_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size folio_switch_stacks, .-folio_switch_stacks
)");
#endif

namespace folio::device {

#if defined(__x86_64__)

struct Fiber::Context {
  const void* stack_begin = nullptr;
  size_t stack_bytes = 0;
  void* stack_pointer = nullptr;
};

Fiber::Fiber(size_t stack_bytes, void (*main)())
    : stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)),
      context_(std::make_unique<Context>(Context{stack_.get(), stack_bytes})) {
  const auto end = reinterpret_cast<uintptr_t>(stack_.get() + stack_bytes) & ~uintptr_t{15};
  // Six registers, the address of main, and that to which main would return.
  auto* top = reinterpret_cast<uintptr_t*>(end) - 8;
  for (int i = 0; i < 8; ++i) top[i] = 0;
  top[6] = reinterpret_cast<uintptr_t>(main);
  context_->stack_pointer = top;
}

#else

struct Fiber::Context {
  const void* stack_begin = nullptr;
  size_t stack_bytes = 0;
  ucontext_t context = {};
};

Fiber::Fiber(size_t stack_bytes, void (*main)())
    : stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)),
      context_(std::make_unique<Context>(Context{stack_.get(), stack_bytes})) {
  getcontext(&context_->context);
  context_->context.uc_stack.ss_sp = stack_.get();
  context_->context.uc_stack.ss_size = stack_bytes;
  makecontext(&context_->context, main, 0);
}

#endif

Fiber::Fiber() : context_(std::make_unique<Context>()) {}
Fiber::~Fiber() = default;

void Fiber::Switch(Fiber& from, Fiber& to) {
#ifdef FOLIO_ADDRESS_SANITIZER
  void* frames = nullptr;
  __sanitizer_start_switch_fiber(&frames, to.context_->stack_begin, to.context_->stack_bytes);
#endif
#if defined(__x86_64__)
  folio_switch_stacks(&from.context_->stack_pointer, to.context_->stack_pointer);
#else
  swapcontext(&from.context_->context, &to.context_->context);
#endif
#ifdef FOLIO_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
#endif
}

void Fiber::Entered([[maybe_unused]] Fiber& from) {
#ifdef FOLIO_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &from.context_->stack_begin,
                                  &from.context_->stack_bytes);
#endif
}

}  // namespace folio::device
