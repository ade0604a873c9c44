#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/ops.h"
#include "folio/model/context.h"
#include "folio/model/tensor_parallel_group.h"

namespace folio {

// The first and the last operation of a pass, counted from 0, that uses a buffer.
struct Lifetime {
  int64_t first = -1, last = -1;  // -1: none does
};

// Records which operations use which buffers, in place of everything that a pass hands a buffer to.
// It reads addresses alone and touches no memory; a use of a view is a use of its buffer.
class BufferUses final : public GenericBackend<BufferUses>, public TraceSink {
 public:
  // `begins`: the addresses of the buffers, ascending, and the end of the last.
  explicit BufferUses(std::vector<const std::byte*> begins)
      : begins_(std::move(begins)), lives_(begins_.size() - 1), sources_(lives_.size(), kNone) {}

  std::string name() const override { return "uses"; }
  std::string description() const override { return "records the uses of buffers"; }
  bool Supports(Dtype) const override { return true; }
  Dtype PreferredDtype() const override { return Dtype::kF32; }

  std::span<const Lifetime> lives() const { return lives_; }
  TensorParallelGroup& group() { return group_; }

  template <class Op>
  void Apply(const Op& op) {
    ++operation_;
    VisitOperands(op, [&](std::string_view, const auto& x, Access access) {
      if (x) Use(Address(x), access);
    });
    if constexpr (std::is_same_v<Op, ResidualForward>) {
      if (!op.residual) Copy(op.x.address(), op.out.address());
    } else if constexpr (std::is_same_v<Op, ResidualBackward>) {
      Copy(op.d_out.address(), op.d_x.address());
    }
  }
  // The insides of a pass are shown after the operation that made them.
  void Take(TracePoint, int64_t, const Tensor& x) override { Use(x.address(), Access::kRead); }

 private:
  static constexpr int32_t kNone = -1;

  // Ranks add up in place what an operation made.
  class Group final : public TensorParallelGroup {
   public:
    explicit Group(BufferUses& uses) : TensorParallelGroup({}), uses_(uses) {}
    void Sum(const Tensor& x) override { uses_.Use(x.address(), Access::kUpdate); }
    void JoinLosses(const Shard&, const Tensor& targets, const Tensor& lse_parts, const Tensor& lse,
                    const Tensor& losses) override {
      for (const Tensor* x : {&targets, &lse_parts, &lse, &losses}) Sum(*x);
    }

   private:
    BufferUses& uses_;
  };

  static const std::byte* Address(const Tensor& x) { return x.address(); }
  static const std::byte* Address(const SequenceView& x) { return x.data; }

  // The number of the buffer that has the address, or kNone: a parameter's.
  int32_t BufferAt(const std::byte* address) const {
    if (address < begins_.front() || address >= begins_.back()) return kNone;
    const auto at = std::upper_bound(begins_.begin(), begins_.end(), address);
    return static_cast<int32_t>(at - begins_.begin()) - 1;
  }

  void Use(const std::byte* address, Access access) {
    const int32_t buffer = BufferAt(address);
    if (buffer == kNone) return;
    const auto use = [&](int32_t used) {
      Lifetime& life = lives_[static_cast<size_t>(used)];
      if (life.first < 0) life.first = operation_;
      life.last = operation_;
    };
    use(buffer);
    int32_t& source = sources_[static_cast<size_t>(buffer)];
    if (access == Access::kWrite) source = kNone;
    if (source != kNone) use(source);
  }

  // Dropout copies what it drops from, and where it is off the source itself is read in place of
  // the copy: then reading the copy counts as a use of the source.
  void Copy(const std::byte* from, const std::byte* to) {
    const int32_t source = BufferAt(from), copy = BufferAt(to);
    if (source != kNone && copy != kNone && source != copy) {
      sources_[static_cast<size_t>(copy)] = source;
    }
  }

  std::vector<const std::byte*> begins_;
  std::vector<Lifetime> lives_;
  std::vector<int32_t> sources_;  // of each buffer that is a copy
  int64_t operation_ = -1;
  Group group_{*this};
};

}  // namespace folio
