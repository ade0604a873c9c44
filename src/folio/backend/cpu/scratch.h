#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace folio::cpu {

// Working memory that kernels share, one after the other. Grows to the largest request and stays,
// so that repeating a computation allocates nothing.
class Scratch {
 public:
  // Room for `count` elements, aligned to 64 bytes, contents undefined; valid until the next call.
  template <class T>
  T* Get(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

// Cuts memory, such as a thread's part of Scratch, into arrays that are aligned to 64 bytes.
// Without memory it only counts.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* memory) : memory_(memory) {}

  template <class T>
  T* Take(int64_t count) {
    std::byte* const at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  int64_t bytes_ = 0;
};

}  // namespace folio::cpu
