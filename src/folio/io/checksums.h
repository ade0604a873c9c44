#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace folio {

// The hash of bytes that are added in pieces.
class Digest {
 public:
  static Digest Sha256();  // FIPS 180-4
  // The name that git gives a file of this size: the SHA-1 of a blob.
  static Digest OfGitBlob(int64_t bytes);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void Add(std::string_view bytes);
  // The hash in hexadecimal digits: 64 for SHA-256, 40 for git's. Call once, as the last call.
  std::string Hex();

 private:
  struct State;
  explicit Digest(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

// Calls visit with the bytes of a file in consecutive pieces, only one of which is in memory at a
// time. Throws a kInput Error if the file cannot be read.
void ReadPieces(const std::filesystem::path& path,
                const std::function<void(std::string_view piece)>& visit);

// The SHA-256 of files, as `sha256sum --check` reads them: a line "<64 hex digits>  <name>" for
// each, sorted by name.
inline constexpr char kChecksumsFile[] = "SHA256SUMS";

// Writes dir/SHA256SUMS of every regular file below `dir`. Files that `known`, a directory with
// checksums of its own, also has (as hard links) are not hashed again.
void WriteChecksums(const std::filesystem::path& dir, const std::filesystem::path& known = {});

// Member of a config.json beside SHA256SUMS, so that a missing list is noticed. A directory whose
// config.json has this member with this value has a list that folio itself wrote.
inline constexpr char kChecksumsKey[] = "checksums";

// Throws a kInput Error that names the first file that is missing or differs from dir/SHA256SUMS,
// or if that list is empty. If folio wrote the list, it must exist and have a line for each .json
// and .safetensors file: other files may be added to a checkpoint. Returns false if there is no
// list. Without `below`, files in subdirectories are not checked.
bool VerifyChecksums(const std::filesystem::path& dir, bool below = true);

}  // namespace folio
