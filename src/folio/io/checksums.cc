#include "folio/io/checksums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nettle/nettle-meta.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 64;

std::string HashOf(const fs::path& path) {
  Digest hash = Digest::Sha256();
  ReadPieces(path, [&](std::string_view piece) { hash.Add(piece); });
  return hash.Hex();
}

using Sums = std::map<std::string, std::string>;  // hash by name

// Returns nothing if there is no such file.
std::optional<Sums> ReadChecksums(const fs::path& dir) {
  constexpr uint64_t kMost = 1 << 20;
  const fs::path path = dir / kChecksumsFile;
  Sums sums;
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found && !Exists(path)) {
    return {};
  }
  const std::string text = ReadFile(path, kMost);
  if (text.empty()) {
    throw InputError(fmt::format("{} is damaged", path.string()), "it is empty");
  }
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

// Returns true if folio wrote a list of checksums for the model in `dir`. If config.json is missing
// or unreadable it returns false: an existing list then reports that file.
bool ListIsOurs(const fs::path& dir) {
  constexpr uint64_t kMost = 1 << 20;
  try {
    const Json config = ParseJson(ReadFile(dir / kConfigFile, kMost), kConfigFile);
    const Json* said = config.is_object() ? config.find(kChecksumsKey) : nullptr;
    return said != nullptr && *said == kChecksumsFile;
  } catch (const Error&) {
    return false;
  }
}

// The names of the files that checkpoints consist of.
std::vector<std::string> PartsOf(const fs::path& dir, bool below) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    if (!below || it.depth() > 2) it.disable_recursion_pending();
    const std::string kind = it->path().extension();
    std::error_code ignored;
    const bool hidden = it->path().filename().string().starts_with('.');
    if (hidden || (kind != ".json" && kind != ".safetensors") || !it->is_regular_file(ignored)) {
      continue;
    }
    names.push_back(it->path().lexically_relative(dir).generic_string());
  }
  std::ranges::sort(names);
  return names;
}

// Ensures that no hash is computed of a file that has practically no end (a hole of a terabyte,
// say): throws a kInput Error for a large file whose header does not match it, or of a kind without
// a header.
void RequireEnd(const fs::path& path) {
  constexpr uint64_t kMost = uint64_t{16} << 30;
  std::error_code failed;
  const uint64_t size = fs::file_size(path, failed);
  if (failed || size <= kMost) return;
  std::string cause =
      fmt::format("it has {} bytes, more than the {} allowed in a checkpoint", size, kMost);
  if (path.extension() == ".safetensors") {
    try {
      const SafetensorsFile sound(path);
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      cause = error.cause();
    }
  }
  throw InputError(fmt::format("{} is damaged", path.string()), cause);
}

}  // namespace

struct Digest::State {
  const nettle_hash& kind;
  std::vector<std::byte> context = std::vector<std::byte>(kind.context_size);
};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->kind.init(state_->context.data());
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

Digest Digest::Sha256() {
  return Digest(std::make_unique<State>(State{nettle_sha256}));
}

Digest Digest::OfGitBlob(int64_t bytes) {
  Digest digest(std::make_unique<State>(State{nettle_sha1}));
  digest.Add(fmt::format("blob {}{}", bytes, '\0'));
  return digest;
}

void Digest::Add(std::string_view bytes) {
  state_->kind.update(state_->context.data(), bytes.size(),
                      reinterpret_cast<const uint8_t*>(bytes.data()));
}

std::string Digest::Hex() {
  std::vector<uint8_t> digest(state_->kind.digest_size);
  state_->kind.digest(state_->context.data(), digest.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string Sha256Hex(std::string_view bytes) {
  Digest hash = Digest::Sha256();
  hash.Add(bytes);
  return hash.Hex();
}

void ReadPieces(const fs::path& path, const std::function<void(std::string_view piece)>& visit) {
  constexpr size_t kPiece = 1 << 20;
  if (std::error_code none; !fs::exists(path, none)) {  // in memory, or an error
    return visit(AsText(MappedFile(path).bytes()));
  }
  const internal::FileDescriptor file = internal::OpenForReading(path);
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t n = read(file.get(), piece.data(), piece.size());
    if (n == 0) return;
    if (n < 0 && errno != EINTR) internal::ThrowCannotRead(path, errno);
    if (n > 0) visit(std::string_view(piece).substr(0, static_cast<size_t>(n)));
  }
}

void WriteChecksums(const fs::path& dir, const fs::path& known) {
  const Sums before = known.empty() ? Sums() : ReadChecksums(known).value_or(Sums());
  Sums sums;
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
  const std::optional<Sums> sums = ReadChecksums(dir);
  const bool ours = ListIsOurs(dir);
  if (!sums && ours) {
    throw InputError(fmt::format("{} is missing", (dir / kChecksumsFile).string()),
                     fmt::format("it is part of the model, according to {}", kConfigFile),
                     fmt::format("copy it too; if it was removed on purpose, remove \"{}\" from {}",
                                 kChecksumsKey, kConfigFile));
  }
  if (!sums) return false;
  for (const auto& [name, sum] : *sums) {
    const fs::path inside = fs::path(name).lexically_normal();
    if (!below && inside.has_parent_path()) continue;
    std::error_code ignored;  // a name may be too long for any file
    const fs::path path = dir / inside;
    if (inside.is_absolute() || *inside.begin() == ".." ||
        (!fs::exists(fs::symlink_status(path, ignored)) && !Exists(path))) {
      throw InputError(fmt::format("{} is missing", path.string()),
                       fmt::format("it is listed in {}", kChecksumsFile));
    }
    RequireEnd(path);
    if (HashOf(path) == sum) continue;
    throw InputError(fmt::format("{} is damaged", path.string()),
                     fmt::format("its SHA-256 differs from that in {}", kChecksumsFile));
  }
  if (!ours) return true;
  for (const std::string& name : PartsOf(dir, below)) {
    if (sums->contains(name)) continue;
    throw InputError(fmt::format("{} has no line for {}", (dir / kChecksumsFile).string(), name),
                     "each file of a checkpoint has a line",
                     fmt::format("the list is truncated, or {} was added later: remove it",
                                 (dir / name).string()));
  }
  return true;
}

}  // namespace folio
