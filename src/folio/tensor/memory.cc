#include "folio/tensor/memory.h"

#include <cstdlib>
#include <cstring>

#include "folio/base/machine.h"

namespace folio {
namespace {

// Rows far apart, as in columns of a matrix, share an entry of the address cache in large pages;
// and untouched memory, such as the end of a KV cache, costs nothing.
bool InLargePages(size_t bytes) {
  return bytes >= 4 * kLargePageBytes;
}

class Host final : public Memory {
 public:
  std::string_view name() const override { return "host"; }
  bool on_host() const override { return true; }

  std::byte* Allocate(size_t bytes, std::span<const NamedPart> /*parts*/) override {
    // The system may grant more than there is and end the process when the memory is touched.
    const uint64_t there = ThisMachinesMemory().total;
    if (there != 0 && bytes > there) return nullptr;
    if (InLargePages(bytes)) return MapZeros(bytes);
    const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, whole);
    if (memory != nullptr) std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  void Free(std::byte* memory, size_t bytes) override {
    InLargePages(bytes) ? UnmapZeros(memory, bytes) : std::free(memory);
  }

  void Write(const std::byte* host, std::byte* to, size_t bytes) override {
    std::memcpy(to, host, bytes);
  }
  void Read(const std::byte* from, std::byte* host, size_t bytes) override {
    std::memcpy(host, from, bytes);
  }
};

}  // namespace

Memory& HostMemory() {
  static Host host;
  return host;
}

}  // namespace folio
