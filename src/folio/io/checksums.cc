#include "folio/io/checksums.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/sha256.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 64;

std::string HashOf(const fs::path& path) {
  const MappedFile file(path);
  file.Advise(MappedFile::Access::kSequential);
  return Sha256Hex({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

// Hash by name; empty if there is no such file.
std::map<std::string, std::string> ReadChecksums(const fs::path& dir) {
  constexpr uint64_t kMost = 1 << 20;
  const fs::path path = dir / kChecksumsFile;
  std::map<std::string, std::string> sums;
  if (!fs::exists(path)) return sums;
  const std::string text = ReadFile(path, kMost);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (end == std::string::npos || line.size() < kDigits + 3 ||
        line.find_first_not_of("0123456789abcdef") != kDigits || line.substr(kDigits, 2) != "  ") {
      throw InputError(fmt::format("{}: not a list of checksums", path.string()));
    }
    sums[line.substr(kDigits + 2)] = line.substr(0, kDigits);
    begin = end + 1;
  }
  return sums;
}

}  // namespace

void WriteChecksums(const fs::path& dir, const fs::path& known) {
  const auto before = known.empty() ? std::map<std::string, std::string>{} : ReadChecksums(known);
  std::map<std::string, std::string> sums;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir)) {
    const std::string name = entry.path().lexically_relative(dir).generic_string();
    if (!entry.is_regular_file() || name == kChecksumsFile) continue;
    const auto found = before.find(name);
    const bool same = found != before.end() && fs::equivalent(entry.path(), known / name);
    sums[name] = same ? found->second : HashOf(entry.path());
  }
  std::string text;
  for (const auto& [name, sum] : sums) text += sum + "  " + name + "\n";
  const GuardedDirectory inside(dir);
  WriteFileAtomically(dir / kChecksumsFile, text);
}

bool VerifyChecksums(const fs::path& dir, bool below) {
  const auto sums = ReadChecksums(dir);
  for (const auto& [name, sum] : sums) {
    const fs::path inside = fs::path(name).lexically_normal();
    if (!below && inside.has_parent_path()) continue;
    std::error_code ignored;  // a name may be too long for any file
    const fs::path path = dir / inside;
    if (inside.is_absolute() || *inside.begin() == ".." || !fs::is_regular_file(path, ignored)) {
      throw InputError(fmt::format("{} is missing", path.string()),
                       fmt::format("{} names it", kChecksumsFile));
    }
    if (HashOf(path) == sum) continue;
    throw InputError(fmt::format("{} is damaged", path.string()),
                     fmt::format("its SHA-256 is not the one in {}", kChecksumsFile));
  }
  return !sums.empty();
}

}  // namespace folio
