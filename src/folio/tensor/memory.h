#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace folio {

// A part of a block of memory, and its name in errors.
struct NamedPart {
  std::string_view name;
  size_t offset = 0, bytes = 0;
};

// Memory that tensors lie in. That of a backend may be beyond the host's reach: then host code
// reads and writes it through Read and Write alone (tensor/mirror.h).
class Memory {
 public:
  virtual ~Memory() = default;

  virtual std::string_view name() const = 0;  // "host"
  // Returns true if the host may read and write it where it lies.
  virtual bool on_host() const = 0;

  static constexpr size_t kAlignment = 64;
  // Returns so many zeros, from a multiple of kAlignment on, or null if there is not so much
  // memory. `parts` say what lies where.
  virtual std::byte* Allocate(size_t bytes, std::span<const NamedPart> parts) = 0;
  virtual void Free(std::byte* memory, size_t bytes) = 0;

  // Copies bytes to and from the host. A copy is made after the operations of the backend that were
  // begun before it, and before later ones; each returns when the caller may use or change what is
  // on the host.
  virtual void Write(const std::byte* host, std::byte* to, size_t bytes) = 0;
  virtual void Read(const std::byte* from, std::byte* host, size_t bytes) = 0;
};

// The memory of the process.
Memory& HostMemory();

}  // namespace folio
