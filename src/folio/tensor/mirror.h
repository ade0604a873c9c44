#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "folio/tensor/memory.h"
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
    if (old == kKeep) Mirror{device_, host_}.Fetch();
  }

  template <class T>
  std::span<T> elements() const {
    return {host_.host<T>(), static_cast<size_t>(host_.count())};
  }
  void Send() const { Mirror{device_, host_}.Send(); }

 private:
  Tensor device_;
};

// Keeps the HostCopy of the tensor that it was asked for last, for readers that take a part of one
// tensor after the other.
class LastHostCopy {
 public:
  const Tensor& Of(const Tensor& x) {
    if (!copy_ || address_ != x.address()) copy_.emplace(x);
    address_ = x.address();
    return copy_->tensor();
  }

 private:
  const std::byte* address_ = nullptr;
  std::optional<HostCopy> copy_;
};

// Copies the elements of a tensor to another of the same bytes, of which either may lie in the
// host's memory.
void CopyElements(const Tensor& from, const Tensor& to);

}  // namespace folio
