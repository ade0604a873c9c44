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

// A directory of files that are in memory alone, for models and tokenizers that a program carries,
// decrypts or receives. While the object lives, path() and path() / NAME can be given to whatever
// opens those; who has opened a file keeps its bytes for as long as they are needed. Nothing is
// written there.
class MemoryFiles {
 public:
  // Fills `to` with the bytes of a file from `offset` on; throws where it cannot.
  using Reader = std::function<void(uint64_t offset, std::span<std::byte> to)>;

  MemoryFiles();
  ~MemoryFiles();
  MemoryFiles(const MemoryFiles&) = delete;

  // Adds a file, whose bytes are copied, or read in pieces. Throws a kUsage Error for what is no
  // name of a file or is there already, and a kResource Error where memory does not suffice.
  void Add(const std::string& name, std::span<const std::byte> bytes);
  void Add(const std::string& name, uint64_t size, const Reader& read);

  const std::filesystem::path& path() const { return path_; }

 private:
  uint64_t number_ = 0;
  std::filesystem::path path_;
  std::shared_ptr<internal::MemoryDirectory> directory_;
};

namespace internal {

// The bytes of a file, with 64 more behind them that can be read, and as long as somebody holds
// them.
struct MemoryFile {
  std::shared_ptr<const std::byte> data;
  size_t size = 0;
};

// The bytes that the path of a file in memory means, and whether it is a path of a directory there.
std::optional<MemoryFile> FindMemoryFile(const std::filesystem::path& path);
bool IsMemoryDirectory(const std::filesystem::path& path);
std::vector<std::string> MemoryNames(const std::filesystem::path& directory);

}  // namespace internal
}  // namespace folio
