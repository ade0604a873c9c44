#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace folio {

// SHA-256 (FIPS 180-4) of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Add(std::string_view bytes);
  // 64 hexadecimal digits. Once, and nothing after it.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The name that git gives a file of so many bytes, which come in pieces: the SHA-1 of a blob.
class GitHash {
 public:
  explicit GitHash(int64_t bytes);
  ~GitHash();

  void Add(std::string_view bytes);
  // 40 hexadecimal digits. Once, and nothing after it.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

// Calls visit with the bytes of a file, one piece after the other, of which one alone is in memory
// at a time. Throws a kInput Error if it cannot be read.
void ReadPieces(const std::filesystem::path& path,
                const std::function<void(std::string_view piece)>& visit);

// The SHA-256 of files, as `sha256sum --check` reads them: a line "<64 hex digits>  <name>" for
// each, sorted by name.
inline constexpr char kChecksumsFile[] = "SHA256SUMS";

// Writes dir/SHA256SUMS of every regular file below `dir`. What `known`, a directory with checksums
// of its own, has of the same file (a hard link) is not computed again.
void WriteChecksums(const std::filesystem::path& dir, const std::filesystem::path& known = {});

// A config.json beside SHA256SUMS has this member, so that the list is known to be missing: only of
// a directory whose config.json has this member with this value folio itself has written the list.
inline constexpr char kChecksumsKey[] = "checksums";

// Throws a kInput Error that names the first file that is missing or differs from dir/SHA256SUMS,
// or where that is empty. Where folio has written the list, it must be there, and have a line for
// each .json and .safetensors: others may be put beside a checkpoint. Returns false if there is no
// list. Without `below` files in directories are not looked at.
bool VerifyChecksums(const std::filesystem::path& dir, bool below = true);

}  // namespace folio
