#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "folio/model/params.h"

namespace folio {

// A FloatCopy has the float32 weights of a model for requests that look inside, which need them.
// A model that is kept as another type, or in another memory, is copied when the first such request
// comes; all requests share that copy, and its memory is given back when none has come for a while.
// A model that is kept as float32 in that memory is its own copy, always.
class FloatCopy {
 public:
  using Weights = std::shared_ptr<const GptWeights>;

  // `weights` and `memory`, where the copy lies, must outlive it. `seconds`: how long a copy that
  // nobody asks for stays. `free` returns the bytes that a copy may take now; 0 where that is not
  // known.
  FloatCopy(const GptWeights& weights, Memory& memory, double seconds,
            std::function<uint64_t()> free);
  ~FloatCopy();
  FloatCopy(const FloatCopy&) = delete;

  // Returns the bytes that the copy takes, whether it is there or not; 0 where there is none.
  uint64_t bytes() const { return bytes_; }
  // Returns the bytes that it takes now.
  uint64_t used_bytes() const;

  // Returns the weights, and makes the copy if there is none, for which other callers wait. They
  // stay as long as the caller keeps them. Throws an ApiError (503, "needs_memory")
  // where there are not so many bytes free.
  Weights Get();
  // Keeps the copy for another while, since it is in use.
  void Touch();

 private:
  void DropUnused();  // on the thread
  void EndThread();

  const GptWeights& source_;
  Memory& memory_;
  uint64_t bytes_ = 0;
  double seconds_;
  std::function<uint64_t()> free_;
  std::mutex making_;         // held while the copy is made
  mutable std::mutex mutex_;  // of the members below
  Weights weights_;
  double used_ = 0;  // when it was asked for last
  bool stopped_ = false;
  std::condition_variable stop_;
  std::thread thread_;  // drops the copy; runs while there is one
};

}  // namespace folio
