#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/tensor/tensor.h"

namespace folio {

// A tensor that both the host and a backend's operations use, such as token ids and logits: it lies
// in the backend's memory, and `host` is as large. Both are the same where that memory is the
// host's, and then Send and Fetch do nothing.
struct Mirror {
  Tensor device = {}, host = {};

  explicit operator bool() const { return static_cast<bool>(device); }
  // Makes the one what the other is. Operations that were begun before are done before.
  void Send() const {
    if (!device.on_host()) device.memory().Write(host.host_bytes(), device.raw(), host.bytes());
  }
  void Fetch() const {
    if (!device.on_host()) device.memory().Read(device.raw(), host.host_bytes(), host.bytes());
  }

  // Views of both, as Tensor's.
  Mirror Reshape(const Shape& shape) const { return {device.Reshape(shape), host.Reshape(shape)}; }
  Mirror Slice(int64_t begin, int64_t end) const {
    return {device.Slice(begin, end), host.Slice(begin, end)};
  }
  Mirror First(const Shape& shape) const { return {device.First(shape), host.First(shape)}; }
};

// The elements of a tensor for the host, where no mirror is planned: the tensor itself if it lies
// in the host's memory, else a copy. Making it waits for the operations that were begun before.
class HostCopy {
 public:
  explicit HostCopy(const Tensor& x);

  const Tensor& tensor() const { return host_; }
  template <class T>
  std::span<const T> elements() const {
    return {host_.host<T>(), static_cast<size_t>(host_.count())};
  }

 protected:
  // Without reading what is there.
  struct Unread {};
  HostCopy(const Tensor& x, Unread);

  std::unique_ptr<std::byte[]> copy_;
  Tensor host_;
};

// The same to be changed: Send writes it back, which does nothing where it is no copy.
class HostEdit : public HostCopy {
 public:
  enum Old : bool { kKeep, kDiscard };  // whether what was there is read before
  explicit HostEdit(const Tensor& x, Old old = kKeep) : HostCopy(x, Unread()), device_(x) {
    if (old == kKeep) mirror().Fetch();
  }

  template <class T>
  std::span<T> elements() const {
    return {host_.host<T>(), static_cast<size_t>(host_.count())};
  }
  void Send() const { mirror().Send(); }
  Mirror mirror() const { return {device_, host_}; }

 private:
  Tensor device_;
};

// Copies the elements of a tensor to another of the same bytes, of which either may lie in the
// host's memory.
void CopyElements(const Tensor& from, const Tensor& to);

// Every buffer of a computation, known before it starts. A buffer lives over an inclusive range of
// ticks (the planner numbers operations in order); buffers whose lives do not overlap may share
// memory.
class MemoryPlan {
 public:
  struct Buffer {
    std::string name;
    Dtype dtype;
    Shape shape;
    int64_t first_tick = 0, last_tick = 0;
    // `bytes` is rounded up to kAlignment, plus one vector that kernels may read past the end.
    size_t bytes = 0;
    size_t offset = 0;  // from the start of the arena, set by Place
    // The host uses it too: in memory beyond its reach there is a mirror, at this offset of all
    // mirrors.
    bool mirrored = false;
    size_t mirror_offset = 0;
  };
  using Id = int;

  static constexpr size_t kAlignment = Memory::kAlignment;
  static constexpr int64_t kAlways = INT64_MAX;  // as last_tick: lives to the end

  // Throws a kResource Error if the size, or that of all buffers together, nears 63 bits.
  Id Add(std::string name, Dtype dtype, Shape shape, int64_t first_tick = 0,
         int64_t last_tick = kAlways);
  Id AddMirrored(std::string name, Dtype dtype, Shape shape);

  // Replaces the range of ticks passed to Add.
  void SetLife(Id id, int64_t first_tick, int64_t last_tick);

  // Gives each buffer its offset: largest first, each at the lowest place free over its life.
  void Place();

  std::span<const Buffer> buffers() const { return buffers_; }
  const Buffer& operator[](Id id) const { return buffers_[static_cast<size_t>(id)]; }
  size_t arena_bytes() const { return arena_bytes_; }    // after Place
  size_t mirror_bytes() const { return mirror_bytes_; }  // of all that are mirrored
  size_t peak_bytes() const;  // the most bytes alive at one tick: a lower bound of the arena

 private:
  std::vector<Buffer> buffers_;
  size_t total_bytes_ = 0;  // sum of all buffers: an upper bound of every offset and size
  size_t arena_bytes_ = 0, mirror_bytes_ = 0;
};

struct FreeArena {
  Memory* memory = nullptr;
  size_t bytes = 0;
  void operator()(std::byte* p) const { memory->Free(p, bytes); }
};

// Memory for a placed plan, allocated once and zeroed. Throws a kResource Error with the number of
// bytes if the system refuses.
class Arena {
 public:
  Arena() = default;
  // `memory` must outlive it.
  explicit Arena(const MemoryPlan& plan, Memory& memory = HostMemory());

  Tensor Get(const MemoryPlan& plan, MemoryPlan::Id id) const {
    return Get(plan, id, plan[id].shape);
  }
  // Its first elements. REQUIRES: there are so many.
  Tensor Get(const MemoryPlan& plan, MemoryPlan::Id id, const Shape& shape) const;
  // REQUIRES: it is mirrored.
  Mirror GetMirror(const MemoryPlan& plan, MemoryPlan::Id id) const {
    return GetMirror(plan, id, plan[id].shape);
  }
  Mirror GetMirror(const MemoryPlan& plan, MemoryPlan::Id id, const Shape& shape) const;

 private:
  std::unique_ptr<std::byte, FreeArena> memory_;
  Memory* beyond_host_ = nullptr;         // the memory, if it is not the host's
  std::unique_ptr<std::byte[]> mirrors_;  // none where the memory is the host's
};

// A tensor of the host's for the operations of a backend, to be read or written: the tensor itself
// where the backend's memory is the host's, else a copy in it.
class DeviceCopy {
 public:
  DeviceCopy() = default;
  // `memory` must outlive it, and the tensor too if it is no copy. `name` is the copy's in errors.
  DeviceCopy(const Tensor& x, const std::string& name, Memory& memory);

  const Tensor& tensor() const { return tensor_; }
  const Tensor& host() const { return host_; }  // the one that it was made of
  // Copies what operations wrote back to the host's.
  void Fetch() const { Mirror{tensor_, host_}.Fetch(); }

 private:
  Arena arena_;
  Tensor tensor_, host_;
};

}  // namespace folio
