#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace folio {

// A MemoryBudget is the memory that the requests of a service may take together. The memory that a
// request is going to take is reserved before it is worked on, so that many large ones are told to
// come again instead of ending the process. Any thread may reserve.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : bytes_(bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;

  // An eighth of what this machine, or its cgroup, has free now: at least 64 MiB, at most 1 GiB.
  static int64_t DefaultBytes();

  int64_t bytes() const { return bytes_; }
  int64_t used() const { return used_; }

  // A Share is what one request has of the budget; it is given back when this goes. Without a
  // budget it has what it asks for.
  class Share {
   public:
    // Makes an empty share.
    Share() = default;
    // Throws as Resize.
    Share(std::shared_ptr<MemoryBudget> budget, int64_t bytes) : budget_(std::move(budget)) {
      Resize(bytes);
    }
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share();

    int64_t bytes() const { return bytes_; }
    // Makes the share so many bytes from now on. Throws an ApiError and stays as it is where there
    // are not so many: 503 (come again), or 413 where there never will be.
    void Resize(int64_t bytes);

   private:
    std::shared_ptr<MemoryBudget> budget_ = {};
    int64_t bytes_ = 0;
  };

 private:
  int64_t bytes_;
  std::atomic<int64_t> used_ = 0;
};

// Answering takes so much for each byte of a text, at the most: of one whose every byte is a token,
// 4 bytes of an id, twice while they become more, and the answer that says id, place and piece.
inline constexpr int64_t kMemoryOfText = 64;

}  // namespace folio
