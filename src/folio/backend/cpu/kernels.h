#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "folio/backend/ops.h"

namespace folio::cpu {

// Working memory that kernels use in turn. Grows to the largest request and stays, so that
// repeating a computation allocates nothing.
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

// Divides memory, such as a thread's part of Scratch, into arrays that are aligned to 64 bytes.
// With null memory it only counts bytes.
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

// Every operation on float32, and on BF16 where ops.h says Low; the struct has been checked. The
// work is divided by the sizes of the operands alone, so that results do not depend on Threads().
// Attention needs memory beyond its operands: a few copies of one head of queries, keys and values
// per thread.
void Run(const EmbeddingForward& op, Scratch& scratch);
void Run(const EmbeddingBackward& op, Scratch& scratch);
void Run(const LayerNormForward& op, Scratch& scratch);
void Run(const LayerNormBackward& op, Scratch& scratch);
void Run(const RmsNormForward& op, Scratch& scratch);
void Run(const RmsNormBackward& op, Scratch& scratch);
void Run(const HeadNormForward& op, Scratch& scratch);
void Run(const HeadNormBackward& op, Scratch& scratch);
void Run(const HeadNormSums& op, Scratch& scratch);
void Run(const RotaryAngles& op, Scratch& scratch);
void Run(const Rotary& op, Scratch& scratch);
void Run(const LinearForward& op, Scratch& scratch);
void Run(const LinearBackward& op, Scratch& scratch);
void Run(const ActivationForward& op, Scratch& scratch);
void Run(const ActivationBackward& op, Scratch& scratch);
void Run(const GatedForward& op, Scratch& scratch);
void Run(const GatedBackward& op, Scratch& scratch);
void Run(const AttentionForward& op, Scratch& scratch);
void Run(const AttentionBackward& op, Scratch& scratch);
void Run(const CacheWrite& op, Scratch& scratch);
void Run(const CacheRead& op, Scratch& scratch);
void Run(const CacheAttention& op, Scratch& scratch);
void Run(const ResidualForward& op, Scratch& scratch);
void Run(const ResidualBackward& op, Scratch& scratch);
template <class NormOp>
void Run(const ResidualNorm<NormOp>& op, Scratch& scratch) {
  Run(op.residual, scratch);
  Run(op.Norm(), scratch);
}
void Run(const MixForward& op, Scratch& scratch);
void Run(const MixBackward& op, Scratch& scratch);
void Run(const GatedAddForward& op, Scratch& scratch);
void Run(const GatedAddBackward& op, Scratch& scratch);
void Run(const LogitCap& op, Scratch& scratch);
void Run(const CrossEntropy& op, Scratch& scratch);
void Run(const CrossEntropyBackward& op, Scratch& scratch);
void Run(const AdamWUpdate& op, Scratch& scratch);
void Run(const SumOfElements& op, Scratch& scratch);
void Run(const SumOfSquares& op, Scratch& scratch);
void Run(const Scale& op, Scratch& scratch);
void Run(const CopyColumns& op, Scratch& scratch);
void Run(const Fill& op, Scratch& scratch);

// Elements of one task: large enough that scheduling costs little in comparison, small enough for a
// first- or second-level cache.
inline constexpr int64_t kTaskElements = 8192;

// Elements of one task if nothing is used twice.
inline constexpr int64_t kStreamElements = 32768;

// Rows of `width` elements that make about one task.
inline int64_t TaskRows(int64_t width) {
  return width >= kTaskElements ? 1 : kTaskElements / (width < 1 ? 1 : width);
}

}  // namespace folio::cpu
