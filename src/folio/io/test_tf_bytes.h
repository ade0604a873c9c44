#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/test_zip_bytes.h"

namespace folio {

inline std::string TfVarint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value % 128 + 128);
  return bytes + static_cast<char>(value);
}

// Bit by bit.
inline uint32_t SlowMaskedCrc(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 != 0 ? 0x82F63B78u : 0u);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

using TfEntries = std::vector<std::pair<std::string, std::string>>;  // names and values

// A block without prefixes in common, one restart.
inline std::string TfBlock(const TfEntries& entries) {
  std::string block;
  for (const auto& [key, value] : entries) {
    block += TfVarint(0) + TfVarint(key.size()) + TfVarint(value.size()) + key + value;
  }
  return block + Little(0, 4) + Little(1, 4);
}

inline std::string TfSealed(const std::string& block, char kind = '\0') {
  const std::string checked = block + kind;
  return checked + Little(SlowMaskedCrc(checked), 4);
}

inline std::string TfFooter(uint64_t index_at, uint64_t index_bytes) {
  std::string footer = TfVarint(0) + TfVarint(0) + TfVarint(index_at) + TfVarint(index_bytes);
  footer.resize(40, '\0');
  return footer + Little(0xDB4775248B80FB57, 8);
}

// An index file whose data blocks are given, each with a name for the index.
inline std::string TfTable(const std::vector<std::string>& blocks) {
  std::string file;
  TfEntries handles;
  for (const std::string& block : blocks) {
    handles.emplace_back("z" + std::to_string(handles.size()),
                         TfVarint(file.size()) + TfVarint(block.size()));
    file += TfSealed(block);
  }
  const std::string index = TfBlock(handles);
  const uint64_t at = file.size();
  return file + TfSealed(index) + TfFooter(at, index.size());
}

// Fields of a message.
inline std::string TfNumber(int field, uint64_t value) {
  return TfVarint(static_cast<uint64_t>(field) << 3) + TfVarint(value);
}
inline std::string TfBytes(int field, const std::string& bytes) {
  return TfVarint(static_cast<uint64_t>(field) << 3 | 2) + TfVarint(bytes.size()) + bytes;
}

// With the checksum of its part of `data`.
inline std::string TfTensor(uint64_t type, const std::vector<uint64_t>& sizes, uint64_t offset,
                            uint64_t bytes, const std::string& data = "") {
  std::string shape;
  for (const uint64_t size : sizes) shape += TfBytes(2, TfNumber(1, size));
  return TfNumber(1, type) + TfBytes(2, shape) + TfNumber(4, offset) + TfNumber(5, bytes) +
         TfVarint(6 << 3 | 5) +
         Little(SlowMaskedCrc(offset < data.size() ? data.substr(offset, bytes) : ""), 4);
}

inline const std::string kTfHeader = TfNumber(1, 1) + TfBytes(3, TfNumber(1, 1));

}  // namespace folio
