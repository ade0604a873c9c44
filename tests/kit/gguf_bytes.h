#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// A GGUF file, valid or not, assembled according to the description of the format.
struct GgufBytes {
  uint32_t version = 3;
  std::string keys = {};  // pairs, one after the other
  uint64_t key_count = 0;
  std::string tensors = {};  // descriptions, likewise
  uint64_t tensor_count = 0;
  std::string data = {};
  size_t alignment = 32;

  template <class T>
  static std::string Raw(T value) {
    std::string bytes;
    for (size_t i = 0; i < sizeof value; ++i) {
      bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 255u);
    }
    return bytes;
  }
  static std::string Text(std::string_view text) { return Raw(uint64_t{text.size()}).append(text); }

  // A key of a type, with the bytes of its value.
  GgufBytes& Key(std::string_view key, uint32_t type, const std::string& value) {
    keys += Text(key) + Raw(type) + value;
    ++key_count;
    return *this;
  }
  GgufBytes& U32(std::string_view key, uint32_t value) { return Key(key, 4, Raw(value)); }
  GgufBytes& String(std::string_view key, std::string_view value) {
    return Key(key, 8, Text(value));
  }
  GgufBytes& Strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = Raw(uint32_t{8}) + Raw(uint64_t{values.size()});
    for (const std::string& value : values) bytes += Text(value);
    return Key(key, 9, bytes);
  }
  GgufBytes& I32s(std::string_view key, const std::vector<int32_t>& values) {
    std::string bytes = Raw(uint32_t{5}) + Raw(uint64_t{values.size()});
    for (const int32_t value : values) bytes += Raw(value);
    return Key(key, 9, bytes);
  }

  // `dims` innermost first, as in the format.
  GgufBytes& Describe(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t offset) {
    tensors += Text(name) + Raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors += Raw(dim);
    tensors += Raw(type) + Raw(offset);
    ++tensor_count;
    return *this;
  }
  // The same after the existing tensors, with its data.
  GgufBytes& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                    std::string_view bytes) {
    Describe(name, dims, type, data.size());
    data += bytes;
    data.append((alignment - data.size() % alignment) % alignment, '\0');
    return *this;
  }

  std::string File() const {
    std::string file = "GGUF" + Raw(version) + Raw(tensor_count) + Raw(key_count) + keys + tensors;
    file.append((alignment - file.size() % alignment) % alignment, '\0');
    return file + data;
  }
};

}  // namespace folio
