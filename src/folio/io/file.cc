#include "folio/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/fork.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/io/byte_reader.h"
#include "folio/io/memory_files.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::FileDescriptor;
using internal::ThrowCannotRead;
using internal::ThrowCannotWrite;
using internal::WriteAll;

// A list that only grows, so that a signal handler may read it at any time; entries are reused. The
// size of an entry is 0 while it changes.
struct Entry {
  std::atomic<const std::byte*> begin = nullptr;
  std::atomic<size_t> size = 0;
  char path[1024] = {};  // truncated if longer
  Entry* next = nullptr;
};
std::atomic<Entry*> g_entries = nullptr;
ForkMutex g_mutex;

void Say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

extern "C" void OnBusError(int signal, siginfo_t* info, void*) {
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  for (const Entry* entry = g_entries; entry != nullptr; entry = entry->next) {
    const std::byte* const begin = entry->begin;
    if (begin == nullptr || at < begin || at >= begin + entry->size) continue;
    Say("\nerror: ");
    Say(entry->path);
    Say(" became shorter while it was read\n  another program changed the file in place, or the "
        "disk failed\n  help: restore it; saved checkpoints are intact, and --resume continues a "
        "training run\n");
    _exit(static_cast<int>(ErrorKind::kInput));
  }
  std::signal(signal, SIG_DFL);  // is raised again at once
}

// Readable bytes behind those of a mapped file.
constexpr size_t kPast = 64;
constexpr char kSpelling[] = "check the spelling of the path";

// Throws the Error for a file that is sound but does not fit into this process.
[[noreturn]] void ThrowCannotMap(const fs::path& path, uint64_t size, int error) {
  if (error != ENOMEM) ThrowCannotRead(path, error);
  rlimit limit = {};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string bytes = HumanBytes(size);
  throw Error(ErrorKind::kResource, fmt::format("cannot map {} into memory", path.string()),
              limited ? fmt::format("it has {}, the address space of this process is limited to {}",
                                    bytes, HumanBytes(limit.rlim_cur))
                      : fmt::format("it has {}, more address space than the system allows", bytes),
              limited ? "raise the limit: ulimit -v unlimited"
                      : "free memory, or raise the limits of the system (vm.overcommit_memory, "
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
                       fmt::format("it ended {} bytes too early", to.size()), "copy it again");
    }
    to = to.subspan(static_cast<size_t>(got));
  }
}

// Flushes `directory` and everything below it to disk.
void SyncTree(const fs::path& directory) {
  std::error_code unread;
  for (const std::string& name : internal::NamesIn(directory, &unread)) {
    const fs::path inside = directory / name;
    const internal::HeldName held(inside);
    struct stat info = {};
    if (held.Stat(info) != 0) ThrowCannotWrite(inside, errno);
    if (S_ISDIR(info.st_mode)) SyncTree(inside);
    if (!S_ISREG(info.st_mode)) continue;
    const FileDescriptor fd(held.Open(O_RDONLY | O_NOFOLLOW));
    if (fd.get() < 0 || internal::FlushFile(fd.get()) != 0) ThrowCannotWrite(inside, errno);
  }
  if (unread) ThrowCannotWrite(directory, unread.value());
  internal::SyncDirectory(directory);
}

// Registers the bytes of a file while they are mapped.
void AddMappedBytes(const std::byte* begin, size_t size, const std::filesystem::path& path) {
  const std::lock_guard lock(g_mutex);
  Entry* entry = g_entries;
  while (entry != nullptr && entry->begin != nullptr) entry = entry->next;
  if (entry == nullptr) {
    entry = new Entry;  // never freed
    entry->next = g_entries;
    g_entries = entry;
  }
  const std::string name = Visible(path.string(), {.lines = false});
  const size_t length = std::min(name.size(), sizeof(entry->path) - 1);
  std::memcpy(entry->path, name.data(), length);
  entry->path[length] = '\0';
  entry->size = size;
  entry->begin = begin;
}

void RemoveMappedBytes(const std::byte* begin) {
  const std::lock_guard lock(g_mutex);
  for (Entry* entry = g_entries; entry != nullptr; entry = entry->next) {
    if (entry->begin != begin) continue;
    entry->begin = nullptr;
    entry->size = 0;
  }
}

}  // namespace

// A file or directory being written beside its target under a temporary name.
struct internal::Unfinished {
  // Takes the name `.NAME.tmp-PID`, or a similar one if that exists.
  explicit Unfinished(const fs::path& as_spelt)
      : name(as_spelt),
        resolved(ResolveTarget(as_spelt)),
        target(resolved),
        temporary(TemporaryFor(target)) {}
  ~Unfinished() {
    if (fd < 0) return;
    // A directory that has taken the file's name meanwhile is left alone.
    struct stat info = {};
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
      target.RemoveTree(temporary);
    } else {
      target.Remove(temporary);
    }
    close(fd);
  }

  // Throws unless what is at the target, if anything, is of this type or a link.
  void RequireReplaceable(mode_t type) const {
    struct stat info;
    if (target.Stat(info) != 0 || S_ISLNK(info.st_mode) || (info.st_mode & S_IFMT) == type) return;
    ThrowCannotWrite(name, type == S_IFDIR ? ENOTDIR : S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  }
  void RequireOpen() const {
    if (fd >= 0) return;
    throw UsageError(fmt::format("{} is written and closed", name.string()),
                     "nothing can follow Commit", "write it again as a whole");
  }
  // Flushes the file to disk and gives it the target's name.
  void PutInPlace() {
    if (internal::FlushFile(fd) != 0 || target.Rename(temporary, target.name()) != 0 ||
        close(std::exchange(fd, -1)) != 0 || target.SyncDirectory() != 0) {
      ThrowCannotWrite(name, errno);
    }
  }

  const fs::path name, resolved;
  const HeldName target;
  std::string temporary;
  int fd = -1;  // locked while open: a temporary file without a lock is a leftover
};

void ReportMappedFaults() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || internal::IsMemoryDirectory(path) ||
         internal::FindMemoryFile(path).has_value();
}

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) || internal::FindMemoryFile(path).has_value();
}

bool IsDirectory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) || internal::IsMemoryDirectory(path);
}

std::vector<std::string> NamesIn(const fs::path& directory) {
  return internal::IsMemoryDirectory(directory) ? internal::MemoryNames(directory)
                                                : internal::NamesIn(directory);
}

std::string ReadFile(const fs::path& path, uint64_t max_bytes) {
  constexpr size_t kPiece = size_t{1} << 16;
  const auto refuse = [&](uint64_t bytes) {
    throw InputError(fmt::format("cannot read {}", path.string()),
                     fmt::format("it has {} bytes, at most {} are allowed", bytes, max_bytes),
                     "check that this is the right file");
  };
  if (const auto held = internal::FindMemoryFile(path)) {
    if (held->size > max_bytes) refuse(held->size);
    return std::string(AsText(std::span(held->data.get(), held->size)));
  }
  const FileDescriptor fd = internal::OpenForReading(path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) ThrowCannotRead(path, errno);
  if (static_cast<uint64_t>(info.st_size) > max_bytes) {
    refuse(static_cast<uint64_t>(info.st_size));
  }

  std::string bytes;
  size_t used = 0;
  // Room for the claimed size and one byte more, so that the end is seen at once; but only bytes
  // actually read count.
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

bool FileBeginsWith(const fs::path& path, std::string_view bytes) {
  if (!IsFile(path)) return false;
  return AsText(MappedFile(path).bytes()).starts_with(bytes);
}

void RequireTyped(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) internal::ThrowCannotRead(path, error.value());
  if (type != fs::file_type::not_found || Exists(path)) return;
  throw InputError(fmt::format("cannot read {}", path.string()), internal::ErrnoText(ENOENT),
                   kSpelling);
}

void RequireDirectory(const fs::path& path, std::string_view what) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status) || internal::IsMemoryDirectory(path)) return;
  std::string cause = internal::ErrnoText(error ? error.value() : ENOTDIR);
  throw InputError(fmt::format("{} {} does not exist", what, path.string()), std::move(cause),
                   fs::exists(status) ? "give the directory that contains the file" : kSpelling);
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
  std::vector<fs::path> holders;  // parents of the new names, innermost first
  for (fs::path made = path; !made.empty() && !fs::exists(made, error); made = made.parent_path()) {
    holders.push_back(made.has_parent_path() ? made.parent_path() : ".");
  }
  fs::create_directories(path, error);
  if (!error && fs::is_directory(path, error)) {
    // A directory that may be entered but not listed cannot be opened for flushing.
    for (const fs::path& holder : holders) {
      if (access(holder.c_str(), R_OK) == 0) internal::SyncDirectory(holder);
    }
    return;
  }
  throw RuntimeError(fmt::format("cannot create the directory {}", path.string()),
                     internal::ErrnoText(error ? error.value() : ENOTDIR),
                     "choose a directory that you can write to");
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
  const std::string help = "give another directory";
  if (!fs::is_directory(out, ignored)) {
    throw UsageError(fmt::format("{}: exists and is not a directory", out), "", help);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (is_part(name)) continue;
    throw UsageError(fmt::format("{}: not replaced", out),
                     fmt::format("it contains {}, which is not part of a {}", name, kind), help);
  }
  if (!overwrite) {
    throw UsageError(fmt::format("{}: already contains a {}", out, kind), "",
                     fmt::format("{}, or replace the {} with --overwrite", help, kind));
  }
}

void CheckNewFile(const std::string& path, bool overwrite) {
  std::error_code ignored;
  if (overwrite || !fs::is_regular_file(path, ignored)) return;
  throw UsageError(fmt::format("{} already exists", path), "",
                   "give another file, or replace it with --overwrite");
}

MappedFile::MappedFile(const fs::path& path, Loading loading) : path_(path) {
  if (const auto held = internal::FindMemoryFile(path)) {
    in_memory_ = held->data;
    data_ = {held->data.get(), internal::UnmapFile{.size = held->size, .owned = false}};
    return;
  }
  const FileDescriptor fd = internal::OpenForReading(path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) ThrowCannotRead(path, errno);
  if (info.st_size == 0) return;
  const size_t size = static_cast<size_t>(info.st_size);
  // Memory that a file will be mapped over is not written to, so none is reserved for it.
  const int access = loading == Loading::kRead ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = mmap(nullptr, size + kPast, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ThrowCannotMap(path, size, errno);
  data_ = {static_cast<const std::byte*>(memory), internal::UnmapFile{size}};
  if (loading == Loading::kRead) {
    AdviseLargePages(memory, size);
    ReadAll(fd.get(), path, {static_cast<std::byte*>(memory), size});
  } else if (mmap(memory, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    ThrowCannotMap(path, size, errno);
  } else {
    data_.get_deleter().mapped = true;
    AddMappedBytes(data_.get(), size, path_);
  }
}

void internal::UnmapFile::operator()(const std::byte* data) const {
  if (mapped) RemoveMappedBytes(data);
  if (owned) munmap(const_cast<std::byte*>(data), size + kPast);
}

void MappedFile::Forget(std::span<const std::byte> part) const {
  if (data_ == nullptr || !data_.get_deleter().mapped || part.empty()) return;
  // Whole pages only: bytes beside the part on its first and last page may be needed.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<size_t>(part.data() - data_.get());
  const size_t first = (begin + page - 1) / page * page, last = (begin + part.size()) / page * page;
  std::byte* const memory = const_cast<std::byte*>(data_.get());
  if (first < last) madvise(memory + first, last - first, MADV_DONTNEED);
}

void MappedFile::Advise(Access access) const {
  if (data_ == nullptr || in_memory_ != nullptr) return;
  madvise(const_cast<std::byte*>(data_.get()), bytes().size(),
          access == Access::kSequential ? MADV_SEQUENTIAL : MADV_NORMAL);
}

AtomicFile::AtomicFile(const fs::path& target)
    : file_(std::make_unique<internal::Unfinished>(target)) {
  file_->RequireReplaceable(S_IFREG);
  internal::CleanLeftovers(file_->target);
  file_->fd = file_->target.Open(file_->temporary, O_WRONLY | O_CREAT | O_EXCL);
  if (file_->fd < 0 && errno == EEXIST) internal::ThrowBusy(target);
  if (file_->fd < 0) ThrowCannotWrite(target, errno);
  internal::LockTemporary(file_->fd);
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::Write(std::span<const std::byte> bytes) {
  file_->RequireOpen();
  std::string_view left = AsText(bytes);
  if (const int error = WriteAll(file_->fd, left)) ThrowCannotWrite(file_->name, error);
  written_ += bytes.size();
}

void AtomicFile::Commit() {
  file_->RequireOpen();
  file_->PutInPlace();
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

AtomicDirectory::AtomicDirectory(const fs::path& target)
    : directory_(std::make_unique<internal::Unfinished>(target)),
      path_(directory_->resolved.parent_path() / directory_->temporary),
      inside_(std::make_unique<GuardedDirectory>(GuardedDirectory::AlsoItself(path_))) {
  const internal::HeldName& held = directory_->target;
  directory_->RequireReplaceable(S_IFDIR);
  internal::CleanLeftovers(held);
  if (held.MakeDirectory(directory_->temporary) != 0) {
    if (errno == EEXIST) internal::ThrowBusy(target);
    ThrowCannotWrite(target, errno);
  }
  directory_->fd = held.Open(directory_->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (directory_->fd < 0) ThrowCannotWrite(target, errno);
  internal::LockTemporary(directory_->fd);
}

AtomicDirectory::~AtomicDirectory() = default;

void AtomicDirectory::Commit() {
  directory_->RequireOpen();
  SyncTree(path_);
  internal::ReplaceDirectory(directory_->target, directory_->temporary, directory_->name);
  close(std::exchange(directory_->fd, -1));
}

LineFile::LineFile(const std::filesystem::path& path) : path_(path) {
  constexpr int kFlags = O_WRONLY | O_APPEND;
  const internal::HeldName held(path);
  fd_ = held.Open(kFlags);
  if (fd_ >= 0) return;
  if (errno == ENOENT) fd_ = held.Open(kFlags | O_CREAT);
  if (fd_ < 0 || held.SyncDirectory() != 0) internal::ThrowCannotWrite(path, errno);
}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

int LineFile::TryToWrite() {
  std::string_view left = waiting_;
  const int error = WriteAll(fd_, left);
  waiting_.erase(0, waiting_.size() - left.size());
  return error;
}

void LineFile::Warn(int error) {
  if (error == 0 || warned_) return;
  LogWarning(fmt::format("cannot write {}: {}; its lines are kept in memory until writing succeeds",
                         path_.string(), internal::ErrnoText(error)));
  warned_ = true;
}

void LineFile::Write(std::string_view line) {
  waiting_ += line;
  Warn(TryToWrite());
}

void LineFile::Sync() {
  if (internal::FlushData(fd_) != 0) Warn(errno);
}

void LineFile::Finish() {
  int error = TryToWrite();
  if (error == 0 && internal::FlushData(fd_) != 0) error = errno;
  if (error != 0) internal::ThrowCannotWrite(path_, error);
}

PartialFile::PartialFile(const fs::path& target, std::string_view key, int64_t worth_keeping)
    : file_(std::make_unique<internal::Unfinished>(target)), worth_keeping_(worth_keeping) {
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
  const internal::HeldName& held = file_->target;
  file_->temporary = fmt::format(".{}.{}.part", held.name(), key);
  path_ = file_->resolved.parent_path() / file_->temporary;
  FileDescriptor fd(held.Open(file_->temporary, kHow));
  if (fd.get() < 0) ThrowCannotWrite(target, errno);
  // A file system without locks does not prevent the download.
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) internal::ThrowBusy(target);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) ThrowCannotWrite(target, EINVAL);
  // Another user may have created it, or it is another name of a file of this user.
  if (info.st_uid != geteuid() || info.st_nlink != 1) {
    throw RuntimeError(fmt::format("cannot write {}", target.string()),
                       fmt::format("{} exists and other users can access it", path_.string()),
                       "remove it, or choose a directory that only you can write to");
  }
  file_->fd = fd.Release();
  bytes_ = info.st_size;
}

PartialFile::~PartialFile() {
  if (file_->fd >= 0 && bytes_ >= worth_keeping_) close(std::exchange(file_->fd, -1));
}

void PartialFile::Add(std::string_view piece) {
  file_->RequireOpen();
  const size_t size = piece.size();
  const int error = WriteAll(file_->fd, piece);
  bytes_ += static_cast<int64_t>(size - piece.size());
  if (error != 0) ThrowCannotWrite(file_->name, error);
}

void PartialFile::Clear(int64_t kept) {
  FOLIO_CHECK(kept <= bytes_, "there are fewer bytes");
  if (ftruncate(file_->fd, static_cast<off_t>(kept)) != 0) ThrowCannotWrite(file_->name, errno);
  bytes_ = kept;
}

void PartialFile::Commit() {
  file_->RequireOpen();
  file_->PutInPlace();
}

}  // namespace folio
