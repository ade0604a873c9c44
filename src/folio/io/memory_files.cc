#include "folio/io/memory_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/fork.h"
#include "folio/base/strings.h"
#include "folio/io/posix.h"

namespace folio {

namespace fs = std::filesystem;

struct internal::MemoryDirectory {
  ForkMutex mutex;
  std::map<std::string, MemoryFile, std::less<>> files = {};
};

namespace {

// Paths begin with this and a number. They do not depend on the working directory.
constexpr std::string_view kRoot = "/memory:";
constexpr std::align_val_t kPage{4096};
constexpr size_t kBehind = 64;

// All directories that exist, by number.
struct Directories {
  ForkMutex mutex;
  uint64_t made = 0;
  std::map<uint64_t, std::weak_ptr<internal::MemoryDirectory>> by_number;
};

Directories& All() {
  static auto* const all = new Directories;  // never destroyed
  return *all;
}

// The directory of a path, and the rest of the path; null for any other path.
std::pair<std::shared_ptr<internal::MemoryDirectory>, std::string> Find(const fs::path& path) {
  const std::string_view whole = path.native();
  if (!whole.starts_with(kRoot)) return {};
  uint64_t number = 0;
  const char* const end = whole.data() + whole.size();
  const auto [rest, error] = std::from_chars(whole.data() + kRoot.size(), end, number);
  if (error != std::errc() || (rest != end && *rest != '/')) return {};
  const std::string name = fs::path(rest, end).lexically_normal().relative_path().string();
  Directories& all = All();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_number.find(number);
  if (found == all.by_number.end()) return {};
  return {found->second.lock(), name == "." ? "" : name};
}

}  // namespace

MemoryFiles::MemoryFiles() : directory_(std::make_shared<internal::MemoryDirectory>()) {
  Directories& all = All();
  const std::lock_guard lock(all.mutex);
  number_ = ++all.made;
  path_ = fmt::format("{}{}", kRoot, number_);
  all.by_number[number_] = directory_;
}

MemoryFiles::~MemoryFiles() {
  Directories& all = All();
  const std::lock_guard lock(all.mutex);
  all.by_number.erase(number_);
}

void MemoryFiles::Add(const std::string& name, std::span<const std::byte> bytes) {
  Add(name, bytes.size(), [&](uint64_t offset, std::span<std::byte> to) {
    std::ranges::copy(bytes.subspan(static_cast<size_t>(offset), to.size()), to.begin());
  });
}

void MemoryFiles::Add(const std::string& name, uint64_t size, const Reader& read) {
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  if (!IsFileName(name)) {
    throw UsageError(fmt::format("'{}' is not the name of a file", name),
                     "names of files in memory contain no slashes");
  }
  auto* const memory =
      size > PTRDIFF_MAX - kBehind
          ? nullptr
          : static_cast<std::byte*>(operator new(size + kBehind, kPage, std::nothrow));
  if (memory == nullptr) {
    throw Error(ErrorKind::kResource,
                fmt::format("not enough memory for {}", (path_ / name).string()),
                fmt::format("its size is {}", HumanBytes(size)));
  }
  const std::shared_ptr<std::byte> held(memory, [](std::byte* p) { operator delete(p, kPage); });
  for (uint64_t at = 0; at < size; at += kPiece) {
    read(at, {memory + at, static_cast<size_t>(std::min(kPiece, size - at))});
  }
  std::fill_n(memory + size, kBehind, std::byte{0});
  const std::lock_guard lock(directory_->mutex);
  const auto [at, added] =
      directory_->files.try_emplace(name, internal::MemoryFile{held, static_cast<size_t>(size)});
  if (!added) throw UsageError(fmt::format("{} already exists", (path_ / name).string()));
}

std::optional<internal::MemoryFile> internal::FindMemoryFile(const fs::path& path) {
  const auto [directory, name] = Find(path);
  if (directory == nullptr) return {};
  const std::lock_guard lock(directory->mutex);
  const auto found = directory->files.find(name);
  return found == directory->files.end() ? std::nullopt : std::optional(found->second);
}

bool internal::IsMemoryDirectory(const fs::path& path) {
  const auto [directory, name] = Find(path);
  return directory != nullptr && name.empty();
}

std::vector<std::string> internal::MemoryNames(const fs::path& path) {
  const auto [directory, name] = Find(path);
  std::vector<std::string> names;
  if (directory == nullptr || !name.empty()) return names;
  const std::lock_guard lock(directory->mutex);
  for (const auto& [file, bytes] : directory->files) names.push_back(file);
  return names;
}

}  // namespace folio
