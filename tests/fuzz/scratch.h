#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace folio {

// A directory that goes with the process, in memory where the system has such.
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

}  // namespace folio
