#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace folio {

namespace internal {
struct MemoryDirectory;
}  // namespace internal

// A directory of files in memory, for models and tokenizers that a program contains, decrypts or
// receives. While the object exists, path() and path() / NAME can be passed to whatever opens them;
// a file that was opened keeps its bytes as long as they are needed. Nothing is written to disk.
class MemoryFiles {
 public:
  // Fills `to` with the bytes of a file from `offset` on; throws if it cannot.
  using Reader = std::function<void(uint64_t offset, std::span<std::byte> to)>;

  MemoryFiles();
  ~MemoryFiles();
  MemoryFiles(const MemoryFiles&) = delete;

  // Adds a file, whose bytes are copied, or read in pieces. Throws a kUsage Error if the name is no
  // file name or exists already, and a kResource Error if memory does not suffice.
  void Add(const std::string& name, std::span<const std::byte> bytes);
  void Add(const std::string& name, uint64_t size, const Reader& read);

  const std::filesystem::path& path() const { return path_; }

 private:
  uint64_t number_ = 0;
  std::filesystem::path path_;
  std::shared_ptr<internal::MemoryDirectory> directory_;
};

namespace internal {

// The bytes of a file, with 64 more readable bytes behind them, valid as long as it is held.
struct MemoryFile {
  std::shared_ptr<const std::byte> data;
  size_t size = 0;
};

// The file in memory that the path names, if any.
std::optional<MemoryFile> FindMemoryFile(const std::filesystem::path& path);
bool IsMemoryDirectory(const std::filesystem::path& path);
std::vector<std::string> MemoryNames(const std::filesystem::path& directory);

}  // namespace internal
}  // namespace folio
