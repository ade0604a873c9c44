#include "folio/tensor/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {

HostCopy::HostCopy(const Tensor& x, Unread) : host_(x) {
  if (x.on_host()) return;
  copy_.reset(new std::byte[x.bytes()]);
  host_ = Tensor(copy_.get(), x.dtype(), x.shape());
}

HostCopy::HostCopy(const Tensor& x) : HostCopy(x, Unread()) {
  Mirror{x, host_}.Fetch();
}

void CopyElements(const Tensor& from, const Tensor& to) {
  FOLIO_CHECK(from.bytes() == to.bytes(), "a copy has another size");
  if (from.on_host()) {
    to.memory().Write(from.raw(), to.raw(), from.bytes());
  } else {
    const HostCopy copy(from);
    CopyElements(copy.tensor(), to);
  }
}

MemoryPlan::Id MemoryPlan::Add(std::string name, Dtype dtype, Shape shape, int64_t first_tick,
                               int64_t last_tick) {
  FOLIO_CHECK(first_tick <= last_tick, "buffer dies before it is born");
  const bool blocks = DtypeBlock(dtype) > 1;  // of fewer than two bytes for a number
  int64_t bytes = blocks ? 2 : static_cast<int64_t>(DtypeSize(dtype));
  bool too_large = false;
  for (int64_t dim : shape.dims()) {
    too_large |= __builtin_mul_overflow(bytes, dim, &bytes) || bytes > INT64_MAX / 4;
  }
  if (blocks && !too_large) bytes = static_cast<int64_t>(DtypeBytes(dtype, shape.count()));
  const size_t padded = (static_cast<size_t>(bytes) + 2 * kAlignment - 1) / kAlignment * kAlignment;
  if (too_large || padded > INT64_MAX / 2 - total_bytes_) {
    throw Error(ErrorKind::kResource, fmt::format("buffer '{}' is too large", name),
                fmt::format("its shape is {}", shape.ToString()),
                "lower the batch size, the context or the model's size");
  }
  total_bytes_ += padded;
  buffers_.push_back({std::move(name), dtype, shape, first_tick, last_tick, padded});
  return static_cast<Id>(buffers_.size()) - 1;
}

MemoryPlan::Id MemoryPlan::AddMirrored(std::string name, Dtype dtype, Shape shape) {
  const Id id = Add(std::move(name), dtype, shape);
  Buffer& buffer = buffers_.back();
  buffer.mirrored = true;
  buffer.mirror_offset = std::exchange(mirror_bytes_, mirror_bytes_ + buffer.bytes);
  return id;
}

void MemoryPlan::SetLife(Id id, int64_t first_tick, int64_t last_tick) {
  FOLIO_CHECK(first_tick <= last_tick, "buffer dies before it is born");
  Buffer& buffer = buffers_[static_cast<size_t>(id)];
  buffer.first_tick = first_tick;
  buffer.last_tick = last_tick;
}

void MemoryPlan::Place() {
  std::vector<size_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers_[a].bytes > buffers_[b].bytes; });
  std::vector<const Buffer*> placed;  // by offset
  arena_bytes_ = 0;
  for (size_t index : order) {
    Buffer& buffer = buffers_[index];
    size_t offset = 0;
    for (const Buffer* other : placed) {
      const bool meet =
          other->first_tick <= buffer.last_tick && buffer.first_tick <= other->last_tick;
      if (!meet) continue;
      if (offset + buffer.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    buffer.offset = offset;
    arena_bytes_ = std::max(arena_bytes_, offset + buffer.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](size_t at, const Buffer* other) { return at < other->offset; }),
        &buffer);
  }
}

size_t MemoryPlan::peak_bytes() const {
  std::map<int64_t, int64_t> change;  // tick -> bytes born minus bytes died
  for (const Buffer& buffer : buffers_) {
    change[buffer.first_tick] += static_cast<int64_t>(buffer.bytes);
    if (buffer.last_tick != kAlways) {
      change[buffer.last_tick + 1] -= static_cast<int64_t>(buffer.bytes);
    }
  }
  int64_t alive = 0, peak = 0;
  for (const auto& [tick, bytes] : change) peak = std::max(peak, alive += bytes);
  return static_cast<size_t>(peak);
}

Arena::Arena(const MemoryPlan& plan, Memory& memory) {
  const size_t bytes = plan.arena_bytes();
  if (bytes == 0) return;
  std::vector<NamedPart> parts;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (!memory.on_host()) parts.push_back({buffer.name, buffer.offset, buffer.bytes});
  }
  memory_ = {memory.Allocate(bytes, parts), FreeArena{&memory, bytes}};
  if (memory_ == nullptr) {
    throw Error(ErrorKind::kResource, fmt::format("cannot allocate {}", HumanBytes(bytes)),
                "the system does not have this much free memory",
                "lower the batch size, the context or the model's size");
  }
  if (memory.on_host()) return;
  beyond_host_ = &memory;
  mirrors_ = std::make_unique<std::byte[]>(plan.mirror_bytes());
}

Tensor Arena::Get(const MemoryPlan& plan, MemoryPlan::Id id, const Shape& shape) const {
  const MemoryPlan::Buffer& buffer = plan[id];
  FOLIO_CHECK(buffer.offset + buffer.bytes <= memory_.get_deleter().bytes &&
                  DtypeBytes(buffer.dtype, shape.count()) <= buffer.bytes,
              "the plan was not placed for this arena");
  return {memory_.get() + buffer.offset, buffer.dtype, shape, beyond_host_};
}

Mirror Arena::GetMirror(const MemoryPlan& plan, MemoryPlan::Id id, const Shape& shape) const {
  const MemoryPlan::Buffer& buffer = plan[id];
  FOLIO_CHECK(buffer.mirrored, "the buffer has no mirror");
  const Tensor device = Get(plan, id, shape);
  if (device.on_host()) return {device, device};
  return {device, {mirrors_.get() + buffer.mirror_offset, buffer.dtype, shape}};
}

DeviceCopy::DeviceCopy(const Tensor& x, const std::string& name, Memory& memory)
    : tensor_(x), host_(x) {
  if (!x || memory.on_host()) return;
  MemoryPlan plan;
  const MemoryPlan::Id id = plan.Add(name, x.dtype(), x.shape());
  plan.Place();
  arena_ = Arena(plan, memory);
  tensor_ = arena_.Get(plan, id);
  CopyElements(x, tensor_);
}

}  // namespace folio
