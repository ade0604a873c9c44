#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "folio/base/error.h"

namespace folio {

// The bytes of a fuzzer's input, read from the front as choices and finally as text. After their
// end all choices are 0.
class FuzzInput {
 public:
  explicit FuzzInput(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? uint8_t{0} : static_cast<uint8_t>(byte[0]);
  }
  uint16_t Word() {
    const uint8_t high = Byte();
    return static_cast<uint16_t>(high << 8 | Byte());
  }
  std::string_view Take(size_t bytes) {
    const std::string_view front = bytes_.substr(0, bytes);
    bytes_.remove_prefix(front.size());
    return front;
  }
  std::string_view Rest() { return Take(bytes_.size()); }

 private:
  std::string_view bytes_;
};

// A directory that is removed with the process, in memory if the system provides that.
class Scratch {
 public:
  Scratch() {
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm";
    const bool usable = ::access(memory.c_str(), W_OK) == 0;
    dir_ = (usable ? memory : std::filesystem::temp_directory_path(ignored)) /
           fmt::format("folio-fuzz-{}", ::getpid());
    Clear();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  void Clear() const {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  std::string Write(const std::string& name, std::string_view contents) const {
    const std::filesystem::path path = dir_ / name;
    std::ofstream(path, std::ios::binary) << contents;
    return path.string();
  }
  std::string dir() const { return dir_.string(); }

 private:
  std::filesystem::path dir_;
};

// The one of this process.
inline const Scratch& TheScratch() {
  static const Scratch scratch;
  return scratch;
}

// A file changed according to `input`. Each change has a place, and other bytes for it, or a number
// that overflows in sums or products, or the end of the file.
std::string ChangedBytes(std::string file, FuzzInput& input);

// The same for a text: each change has a place, a number of bytes to remove, and a replacement:
// bytes of the input, one of `fragments`, or another part of the text.
std::string ChangedText(std::string text, std::span<const std::string_view> fragments,
                        FuzzInput& input);

// Fragments that are wrong anywhere in JSON, for ChangedText.
std::span<const std::string_view> JsonFragments();

// Succeeds if `read` returns, or throws an Error of one of these kinds.
testing::AssertionResult ReadOrRefused(const std::function<void()>& read,
                                       std::initializer_list<ErrorKind> kinds = {
                                           ErrorKind::kInput});

}  // namespace folio
