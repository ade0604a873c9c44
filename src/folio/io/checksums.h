#pragma once

#include <filesystem>

namespace folio {

// The SHA-256 of files, as `sha256sum --check` reads them: a line "<64 hex digits>  <name>" for
// each, sorted by name.
inline constexpr char kChecksumsFile[] = "SHA256SUMS";

// Writes dir/SHA256SUMS of every regular file below `dir`. What `known`, a directory with checksums
// of its own, has of the same file (a hard link) is not computed again.
void WriteChecksums(const std::filesystem::path& dir, const std::filesystem::path& known = {});

// Throws a kInput Error that names the first file that is missing or differs from dir/SHA256SUMS.
// Returns false if there is no such file. Files that it does not name are not looked at, nor
// without `below` those in directories.
bool VerifyChecksums(const std::filesystem::path& dir, bool below = true);

}  // namespace folio
