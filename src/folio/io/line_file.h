#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace folio {

// Appends lines to a file. Where that fails, on a full disk, it is warned of once, and what is
// missing waits to be written before the next line.
class LineFile {
 public:
  // Makes the file where it is missing. Throws a kRuntime Error.
  explicit LineFile(const std::filesystem::path& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` ends in a line break.
  void Write(std::string_view line);
  // Lines that were written so far survive a power cut then.
  void Sync();
  // Does the same, and throws a kRuntime Error if something still waits and cannot be written now.
  void Finish();

 private:
  // 0, or the errno of what kept it from writing all that waits.
  int TryToWrite();
  void Warn(int error);

  std::filesystem::path path_;
  int fd_ = -1;
  std::string waiting_;
  bool warned_ = false;
};

}  // namespace folio
