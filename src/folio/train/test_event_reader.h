#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"
#include "tests/kit/paths.h"

// A reader of event files for tests that shares nothing with the writer: checksums a bit at a time,
// messages by protoc.

namespace folio {

// Bit by bit; the polynomial is 0x1EDC6F41 with its bits mirrored.
inline uint32_t SlowMaskedCrc(std::string_view bytes) {
  uint32_t remainder = 0xFFFFFFFFu;
  for (const char c : bytes) {
    remainder ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      remainder = remainder >> 1 ^ (remainder % 2 != 0 ? 0x82F63B78u : 0);
    }
  }
  const uint32_t crc = ~remainder;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

inline uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    value = value * 256 + static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

// The messages of a file. Fails the test where the framing or a checksum is wrong.
inline std::vector<std::string> ReadRecords(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  std::vector<std::string> records;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    if (rest.size() < 16) {
      ADD_FAILURE() << "a record is cut off";
      break;
    }
    const uint64_t length = LittleEndian(rest.substr(0, 8));
    EXPECT_EQ(LittleEndian(rest.substr(8, 4)), SlowMaskedCrc(rest.substr(0, 8)));
    if (length > rest.size() - 16) {
      ADD_FAILURE() << "a record of " << length << " bytes is cut off";
      break;
    }
    const std::string_view message = rest.substr(12, length);
    EXPECT_EQ(LittleEndian(rest.substr(12 + length, 4)), SlowMaskedCrc(message));
    records.emplace_back(message);
    rest.remove_prefix(16 + length);
  }
  return records;
}

inline bool HasProtoc() {
  return std::system("protoc --version >/dev/null 2>&1") == 0;
}

// The messages as protoc prints them, an "event {" block each. `scratch` is a directory for a file.
inline std::string DecodeEvents(const std::vector<std::string>& records,
                                const std::filesystem::path& scratch) {
  std::string all;  // an EventFile: field 1, length, bytes
  for (const std::string& record : records) {
    all += '\x0A';
    uint64_t left = record.size();
    for (; left > 127; left /= 128) all += static_cast<char>(128 + left % 128);
    all += static_cast<char>(left);
    all += record;
  }
  const std::filesystem::path in = scratch / "events.bin", out = scratch / "events.txt";
  std::ofstream(in, std::ios::binary) << all;
  const std::string protos = (SourceDir() / "src/folio/train/testdata").string();
  const std::string command = "protoc --decode=EventFile --proto_path='" + protos + "' '" + protos +
                              "/event.proto' < '" + in.string() + "' > '" + out.string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return ReadFile(out);
}

struct DecodedEvent {
  int64_t step = -1;
  double wall_time = 0, value = 0;
  std::string tag, text, plugin, file_version, session;
};

// The blocks of DecodeEvents; texts stay as protoc escapes them.
inline std::vector<DecodedEvent> ParseEvents(const std::string& decoded) {
  std::vector<DecodedEvent> events;
  std::istringstream lines(decoded);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(' '), colon = line.find(": ");
    if (line == "event {") events.emplace_back();
    if (colon == std::string::npos || events.empty()) continue;
    DecodedEvent& event = events.back();
    const std::string key = line.substr(begin, colon - begin);
    std::string value = line.substr(colon + 2);
    if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
    if (key == "step") event.step = std::stoll(value);
    if (key == "wall_time") event.wall_time = std::stod(value);
    if (key == "simple_value") event.value = std::stod(value);
    if (key == "tag") event.tag = value;
    if (key == "string_val") event.text = value;
    if (key == "plugin_name") event.plugin = value;
    if (key == "file_version") event.file_version = value;
    if (key == "status") event.session = value;
    EXPECT_FALSE(key[0] >= '0' && key[0] <= '9') << "protoc does not know " << line;
  }
  return events;
}

}  // namespace folio
