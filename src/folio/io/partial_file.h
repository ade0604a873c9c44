#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "folio/io/guarded_directory.h"

namespace folio {

// A file on its way here, which may take more than one try: its bytes are kept beside the target as
// `.NAME.KEY.part`, and the target appears only at Commit. KEY says which contents are coming, so
// that a later try goes on only with the beginning of the same. Constructor, Add and Commit throw a
// kRuntime Error that names the target and the system's reason, also where another process is at
// the same file.
class PartialFile {
 public:
  PartialFile(const std::filesystem::path& target, std::string_view key,
              int64_t worth_keeping = int64_t{1} << 20);
  // Keeps what has come where that is worth it: so many bytes or more.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  int64_t bytes() const { return bytes_; }
  // Where the bytes lie as long as it is not committed.
  const std::filesystem::path& path() const { return path_; }
  void Add(std::string_view piece);
  // Goes on behind the first `kept` bytes, or begins anew. REQUIRES: there are so many.
  void Clear(int64_t kept = 0);
  void Commit();

 private:
  std::filesystem::path name_;  // as the caller spelt it
  std::filesystem::path resolved_;
  internal::HeldName target_;
  std::string part_;  // its name beside the target
  std::filesystem::path path_;
  int64_t worth_keeping_;
  int fd_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace folio
