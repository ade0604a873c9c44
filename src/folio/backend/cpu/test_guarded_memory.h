#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace folio::cpu {

// Memory followed by an inaccessible page.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    size_ = (bytes + page_ - 1) / page_ * page_;
    void* memory =
        mmap(nullptr, size_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
    if (begin_ != nullptr && mprotect(begin_ + size_, page_, PROT_NONE) != 0) begin_ = nullptr;
  }
  ~GuardedMemory() {
    if (begin_ != nullptr) munmap(begin_, size_ + page_);
  }
  GuardedMemory(const GuardedMemory&) = delete;

  bool ok() const { return begin_ != nullptr; }
  std::byte* end() const { return begin_ + size_; }

 private:
  size_t page_, size_;
  std::byte* begin_;
};

}  // namespace folio::cpu
