#include "folio/io/file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/mapped_faults.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::FileDescriptor;
using internal::ThrowCannotRead;

// Readable bytes behind those of a mapped file.
constexpr size_t kPast = 64;
constexpr char kSpelling[] = "check the spelling of the path";

// Throws the Error of a file that is sound and does not fit into this process.
[[noreturn]] void ThrowCannotMap(const fs::path& path, uint64_t size, int error) {
  if (error != ENOMEM) ThrowCannotRead(path, error);
  rlimit limit = {};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string bytes = HumanBytes(static_cast<double>(size));
  throw Error(
      ErrorKind::kResource, fmt::format("no room in memory for {}", path.string()),
      limited ? fmt::format("it has {}, and the address space of this process is limited to {}",
                            bytes, HumanBytes(static_cast<double>(limit.rlim_cur)))
              : fmt::format("it has {}, and the system gives this process no such address space",
                            bytes),
      limited ? "raise the limit: ulimit -v unlimited"
              : "free memory, or allow more of it to be promised (vm.overcommit_memory, "
                "vm.max_map_count)");
}

// Throws a kInput Error if the file has become shorter than `to`.
void ReadAll(int fd, const fs::path& path, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = read(fd, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ThrowCannotRead(path, errno);
    if (got == 0) {
      throw InputError(fmt::format("cannot read {}", path.string()),
                       fmt::format("it ended {} bytes early", to.size()), "copy it again");
    }
    to = to.subspan(static_cast<size_t>(got));
  }
}

}  // namespace

std::string ReadFile(const fs::path& path, uint64_t max_bytes) {
  constexpr size_t kPiece = size_t{1} << 16;
  const FileDescriptor fd = internal::OpenForReading(path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) ThrowCannotRead(path, errno);

  const auto refuse = [&](uint64_t bytes) {
    throw InputError(
        fmt::format("cannot read {}", path.string()),
        fmt::format("it has {} bytes, and such a file is read up to {}", bytes, max_bytes),
        "look whether it is the file that was meant");
  };
  if (static_cast<uint64_t>(info.st_size) > max_bytes) {
    refuse(static_cast<uint64_t>(info.st_size));
  }

  std::string bytes;
  size_t used = 0;
  // Room for the size that the file claims and one byte more, so that its end is seen at once; but
  // what counts is what can be read.
  const uint64_t claimed =
      std::min(static_cast<uint64_t>(std::max<off_t>(info.st_size, 0)), max_bytes);
  bytes.resize(static_cast<size_t>(std::max<uint64_t>(claimed + 1, kPiece)));
  for (;;) {
    const ssize_t got = read(fd.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ThrowCannotRead(path, errno);
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used > max_bytes) refuse(used);
    if (used == bytes.size()) bytes.resize(bytes.size() * 2);
  }
  bytes.resize(used);
  return bytes;
}

void RequireTyped(const fs::path& path) {
  std::error_code error;
  if (fs::status(path, error).type() != fs::file_type::not_found) return;
  throw InputError(fmt::format("cannot read {}", path.string()), internal::ErrnoText(ENOENT),
                   kSpelling);
}

void RequireDirectory(const fs::path& path, std::string_view what) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return;
  std::string cause = internal::ErrnoText(error ? error.value() : ENOTDIR);
  throw InputError(fmt::format("{} {} is not there", what, path.string()), std::move(cause),
                   fs::exists(status) ? "give the directory that holds the file" : kSpelling);
}

bool IsFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::ranges::none_of(name, [](char c) { return c == '/' || c == '\\' || c == '\0'; });
}

void CreateDirectories(const fs::path& path) {
  std::error_code error;
  if (const fs::path guarded = internal::GuardedPath(path); !guarded.empty()) {
    if (internal::IsDirectoryItself(guarded)) return;
    CreateDirectories(guarded.parent_path());
    error = internal::MakeDirectory(guarded);
    if (error) internal::ThrowCannotWrite(path, error.value());
    return internal::SyncDirectory(guarded.parent_path());
  }
  std::vector<fs::path> holders;  // of the names that are new, the innermost first
  for (fs::path made = path; !made.empty() && !fs::exists(made, error); made = made.parent_path()) {
    holders.push_back(made.has_parent_path() ? made.parent_path() : ".");
  }
  fs::create_directories(path, error);
  if (!error && fs::is_directory(path, error)) {
    // A directory that may be entered but not listed cannot be opened to be flushed.
    for (const fs::path& holder : holders) {
      if (access(holder.c_str(), R_OK) == 0) internal::SyncDirectory(holder);
    }
    return;
  }
  throw RuntimeError(fmt::format("cannot make the directory {}", path.string()),
                     internal::ErrnoText(error ? error.value() : ENOTDIR),
                     "choose a place that you may write to");
}

void CreateParentOf(const fs::path& path) {
  const fs::path name = path.has_filename() ? path : path.parent_path();  // "out/"
  if (name.has_parent_path()) CreateDirectories(name.parent_path());
}

MadeParents::MadeParents(const fs::path& path) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path).lexically_normal();
  for (fs::path at = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
       !fs::exists(at, ignored) && at.has_relative_path(); at = at.parent_path()) {
    made_.push_back(at);
  }
  CreateParentOf(path);
}

MadeParents::~MadeParents() {
  std::error_code error;
  for (const fs::path& one : made_) {
    if (!fs::remove(one, error) || error) return;
  }
}

void RequireParentOf(const fs::path& path) {
  const fs::path parent = internal::ResolveTarget(path).parent_path();
  if (access(parent.c_str(), W_OK) != 0) internal::ThrowCannotWrite(path, errno);
}

void CheckReplaceable(const std::string& out, const std::string& kind, bool overwrite,
                      const std::function<bool(const std::string& name)>& is_part) {
  std::error_code ignored;
  if (!fs::exists(out, ignored) || (fs::is_directory(out, ignored) && fs::is_empty(out, ignored))) {
    return;
  }
  const std::string help = "name another directory";
  if (!fs::is_directory(out, ignored)) {
    throw UsageError(fmt::format("{}: exists and is not a directory", out), "", help);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (is_part(name)) continue;
    throw UsageError(fmt::format("{}: not replaced", out),
                     fmt::format("it holds {}, which is no part of a {}", name, kind), help);
  }
  if (!overwrite) {
    throw UsageError(fmt::format("{}: already holds a {}", out, kind), "",
                     fmt::format("{}, or replace the {} with --overwrite", help, kind));
  }
}

void CheckNewFile(const std::string& path, bool overwrite) {
  std::error_code ignored;
  if (overwrite || !fs::is_regular_file(path, ignored)) return;
  throw UsageError(fmt::format("{}: is there already", path), "",
                   "name another file, or replace it with --overwrite");
}

MappedFile::MappedFile(const fs::path& path, Loading loading) : MappedFile() {
  path_ = path;
  const FileDescriptor fd = internal::OpenForReading(path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) ThrowCannotRead(path, errno);
  if (info.st_size == 0) return;
  const size_t size = static_cast<size_t>(info.st_size);
  // Memory that a file will lie over is not written to, so that none is promised for it.
  const int access = loading == Loading::kRead ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = mmap(nullptr, size + kPast, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ThrowCannotMap(path, size, errno);
  data_ = static_cast<const std::byte*>(memory);
  size_ = size;
  if (loading == Loading::kRead) {
    AdviseLargePages(memory, size);
    ReadAll(fd.get(), path, {static_cast<std::byte*>(memory), size});
  } else if (mmap(memory, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    ThrowCannotMap(path, size, errno);
  } else {
    mapped_ = true;
    AddMappedBytes(data_, size_, path_);
  }
}

MappedFile::~MappedFile() {
  if (mapped_) RemoveMappedBytes(data_);
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_ + kPast);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, false)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

void MappedFile::Forget(std::span<const std::byte> part) const {
  if (!mapped_ || part.empty()) return;
  // Whole pages: what lies beside the part on its first and last one may be needed.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<size_t>(part.data() - data_);
  const size_t first = (begin + page - 1) / page * page, last = (begin + part.size()) / page * page;
  if (first < last) madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

void MappedFile::Advise(Access access) const {
  if (data_ == nullptr) return;
  const int advice = access == Access::kSequential ? MADV_SEQUENTIAL
                     : access == Access::kRandom   ? MADV_RANDOM
                                                   : MADV_NORMAL;
  madvise(const_cast<std::byte*>(data_), size_, advice);
}

}  // namespace folio
