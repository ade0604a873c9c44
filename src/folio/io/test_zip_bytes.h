#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace folio {

// Little-endian, `count` bytes.
inline std::string Little(uint64_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

using ZipFiles = std::vector<std::pair<std::string, std::string>>;  // names and contents

// A zip file according to the format's description: local headers and data, the list of contents,
// its end. With `big` all sizes and offsets use 64-bit fields.
inline std::string ZipBytes(const ZipFiles& files, bool big = false) {
  const uint64_t see64 = 0xFFFFFFFF;
  std::string bytes, list;
  for (const auto& [name, data] : files) {
    const uint64_t offset = bytes.size(), size = data.size();
    const std::string extra =
        big ? Little(1, 2) + Little(24, 2) + Little(size, 8) + Little(size, 8) + Little(offset, 8)
            : "";
    const std::string common = Little(0, 2) + Little(0, 2) + Little(0, 4) + Little(0, 4) +
                               Little(big ? see64 : size, 4) + Little(big ? see64 : size, 4) +
                               Little(name.size(), 2);
    bytes += "PK\x03\x04" + Little(20, 2) + common + Little(0, 2) + name + data;
    list += "PK\x01\x02" + Little(20, 2) + Little(20, 2) + common + Little(extra.size(), 2) +
            Little(0, 2) + Little(0, 2) + Little(0, 2) + Little(0, 4) +
            Little(big ? see64 : offset, 4) + name + extra;
  }
  const uint64_t at = bytes.size(), count = files.size();
  bytes += list;
  if (big) {
    const uint64_t end = bytes.size();
    bytes += "PK\x06\x06" + Little(44, 8) + Little(45, 2) + Little(45, 2) + Little(0, 4) +
             Little(0, 4) + Little(count, 8) + Little(count, 8) + Little(list.size(), 8) +
             Little(at, 8);
    bytes += "PK\x06\x07" + Little(0, 4) + Little(end, 8) + Little(1, 4);
  }
  return bytes + "PK\x05\x06" + Little(0, 4) + Little(big ? 0xFFFF : count, 2) +
         Little(big ? 0xFFFF : count, 2) + Little(big ? see64 : list.size(), 4) +
         Little(big ? see64 : at, 4) + Little(0, 2);
}

// Parts of pickles.
inline std::string PickleText(const std::string& text) {
  return "X" + Little(text.size(), 4) + text;
}
inline std::string PickleInt(int64_t value) {
  return "\x8a\x08" + Little(static_cast<uint64_t>(value), 8);
}
inline std::string PickleTuple(const std::vector<int64_t>& values) {
  std::string tuple = "(";
  for (const int64_t value : values) tuple += PickleInt(value);
  return tuple + "t";
}

// A tensor of the storage `key` of `count` elements.
inline std::string PickleTensor(const std::string& type, const std::string& key, int64_t count,
                                int64_t offset, const std::vector<int64_t>& sizes,
                                const std::vector<int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + PickleText("storage") + "ctorch\n" + type +
         "\n" + PickleText(key) + PickleText("cpu") + PickleInt(count) + "tQ" + PickleInt(offset) +
         PickleTuple(sizes) + PickleTuple(strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}

// A dictionary: names and already pickled values.
inline std::string PickleDict(const ZipFiles& items) {
  std::string dict = "}(";
  for (const auto& [key, value] : items) dict += PickleText(key) + value;
  return dict + "u";
}

inline std::string WholePickle(const std::string& value) {
  return "\x80\x02" + value + ".";
}

// The file that torch.save writes for a dictionary and the bytes of its storages "0", "1" ...
inline std::string TorchBytes(const std::string& pickle, const std::vector<std::string>& storages,
                              bool big = false) {
  ZipFiles files = {{"x/data.pkl", WholePickle(pickle)}, {"x/byteorder", "little"}};
  for (const std::string& bytes : storages) {
    files.emplace_back("x/data/" + std::to_string(files.size() - 2), bytes);
  }
  files.emplace_back("x/version", "3\n");
  return ZipBytes(files, big);
}

}  // namespace folio
