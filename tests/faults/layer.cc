// A shared object between a program and the C library (LD_PRELOAD): it counts the calls that change
// files below a directory, makes chosen ones fail, write less or kill the program, and keeps a
// journal of the changes. See calls.h. It has no effect on statically linked programs, or on writes
// through the C library's own streams.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/faults/calls.h"

namespace folio::faults {
namespace {

// The C library's own.
#define FOLIO_REAL(name)                                                                   \
  [] {                                                                                     \
    static const auto real = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name)); \
    return real;                                                                           \
  }()

void Say(const std::string& text) {
  const std::string line = "faults: " + text + "\n";
  (void)!FOLIO_REAL(write)(STDERR_FILENO, line.data(), line.size());
}

[[noreturn]] void CannotFollow(const std::string& what) {
  Say("cannot follow " + what);
  _exit(kCannotFollow);
}

// The fate of a call.
struct Verdict {
  int error = 0;      // it fails with this
  bool kill = false;  // the process is killed, after `most` bytes of a write
  size_t most = SIZE_MAX;
};

// The rules in FOLIO_FAULTS. Reports wrong spelling and ends the program.
class Rules {
 public:
  explicit Rules(std::string_view text) {
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      Add(text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }

  // Judges the `nth` call of its kind, the `nth_of_all` of all, with this many bytes if it writes.
  Verdict Judge(Kind kind, uint64_t nth, uint64_t nth_of_all, size_t bytes) {
    for (const Rule& rule : rules_) {
      const uint64_t n = rule.kind < 0 ? nth_of_all : nth;
      if ((rule.kind >= 0 && rule.kind != kind) || n < rule.first || n > rule.last) continue;
      if (rule.error != 0) return {.error = rule.error};
      if (!rule.half) return {.kill = true, .most = 0};
      if (kind == kWriteCall)
        return {.kill = rule.kill, .most = rule.kill ? bytes / 2 : (bytes + 1) / 2};
    }
    return has_space_ ? JudgeSpace(kind, bytes) : Verdict{};
  }

 private:
  struct Rule {
    int kind = -1;  // -1: any
    uint64_t first = 0, last = 0;
    int error = 0;
    bool kill = false, half = false;
  };

  [[noreturn]] static void Refuse(std::string_view rule) {
    CannotFollow("the rule '" + std::string(rule) + "'");
  }
  static uint64_t Number(std::string_view text, std::string_view rule) {
    const std::string digits(text);
    char* end = nullptr;
    const uint64_t value = std::strtoull(digits.c_str(), &end, 10);
    if (digits.empty() || *end != '\0') Refuse(rule);
    return value;
  }

  void Add(std::string_view text) {
    const size_t one = text.find(':'), two = text.find(':', one + 1);
    if (one == text.npos) Refuse(text);
    const std::string_view name = text.substr(0, one);
    const std::string_view second = text.substr(one + 1, two == text.npos ? two : two - one - 1);
    const std::string_view third = two == text.npos ? "" : text.substr(two + 1);
    if (name == "space") {
      has_space_ = true;
      space_ = Number(second, text);
      failures_ = third.empty() ? UINT64_MAX : Number(third, text);
      return;
    }
    Rule rule;
    for (size_t i = 0; i < kKindNames.size(); ++i) {
      if (name == kKindNames[i]) rule.kind = static_cast<int>(i);
    }
    if (rule.kind < 0 && name != "any") Refuse(text);
    const size_t dash = second.find('-');
    const bool on = second.ends_with('+');
    rule.first = Number(second.substr(0, on ? second.size() - 1 : dash), text);
    rule.last = on                    ? UINT64_MAX
                : dash != second.npos ? Number(second.substr(dash + 1), text)
                                      : rule.first;
    rule.error = third == "ENOSPC"   ? ENOSPC
                 : third == "EIO"    ? EIO
                 : third == "EDQUOT" ? EDQUOT
                 : third == "EROFS"  ? EROFS
                                     : 0;
    rule.kill = third == "kill" || third == "tear";
    rule.half = third == "short" || third == "tear";
    if (rule.error == 0 && !rule.kill && !rule.half) Refuse(text);
    rules_.push_back(rule);
  }

  // Names take room too, but only the bytes of writes are counted.
  Verdict JudgeSpace(Kind kind, size_t bytes) {
    if (failures_ == 0) return {};
    const bool full = space_ == 0;
    if (kind == kWriteCall && bytes > 0) {
      const size_t put = static_cast<size_t>(std::min<uint64_t>(bytes, space_));
      space_ -= put;
      if (!full) return {.most = put};
    } else if (!full || (kind != kOpenCall && kind != kMkdirCall && kind != kLinkCall &&
                         kind != kAllocateCall)) {
      return {};
    }
    if (failures_ != UINT64_MAX) failures_ -= 1;
    return {.error = ENOSPC};
  }

  std::vector<Rule> rules_;
  bool has_space_ = false;
  uint64_t space_ = 0, failures_ = 0;
};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// `path` without "." and "..", and without a slash at its end.
std::string Normal(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string normal;
  for (const std::string& part : parts) normal += "/" + part;
  return normal;
}

std::string PathOf(int fd) {
  std::array<char, PATH_MAX> path = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(link.c_str(), path.data(), path.size() - 1);
  std::string found = size <= 0 ? "" : path.data();
  constexpr std::string_view kGone = " (deleted)";
  if (found.ends_with(kGone)) found.resize(found.size() - kGone.size());
  return found;
}

std::string PathOf(int at, const char* path) {
  if (path[0] == '/') return Normal(path);
  std::array<char, PATH_MAX> here = {};
  const std::string from = at != AT_FDCWD                                ? PathOf(at)
                           : getcwd(here.data(), here.size()) == nullptr ? ""
                                                                         : here.data();
  return Normal(from + "/" + path);
}

class Layer {
 public:
  Layer() : root_(Variable(kRootVariable)), rules_(Variable(kRulesVariable)) {
    if (root_.empty()) return;
    const auto open_file = FOLIO_REAL(open);
    if (const std::string counts = Variable(kCountsVariable); !counts.empty()) {
      const int fd = open_file(counts.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (fd < 0 || FOLIO_REAL(ftruncate)(fd, sizeof(Counts)) != 0) CannotFollow(counts);
      void* shared =
          FOLIO_REAL(mmap)(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (shared == MAP_FAILED) CannotFollow(counts);
      counts_ = static_cast<Counts*>(shared);
      FOLIO_REAL(close)(fd);
    }
    counts_->loaded = kLoaded;
    if (const std::string journal = Variable(kJournalVariable); !journal.empty()) {
      journal_ = open_file(journal.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
      if (journal_ < 0) CannotFollow(journal);
      NoteWhatIsThere("");
    }
  }

  // Held during a whole call, so that the journal is in order.
  std::mutex& mutex() { return mutex_; }

  bool Below(const std::string& path) const {
    return !root_.empty() && path.starts_with(root_) &&
           (path.size() == root_.size() || path[root_.size()] == '/');
  }
  // By the name under which the file was opened. A file without a name (a pipe) is not below.
  bool Below(int fd) const { return !root_.empty() && fd >= 0 && Below(PathOf(fd)); }

  Verdict Count(Kind kind, size_t bytes = 0) {
    counts_->any += 1;
    counts_->calls[kind] += 1;
    const Verdict verdict = rules_.Judge(kind, counts_->calls[kind], counts_->any, bytes);
    if (verdict.error != 0 || verdict.kill || verdict.most < bytes) counts_->injected += 1;
    if (verdict.kill && (kind != kWriteCall || verdict.most == 0)) Kill();
    return verdict;
  }
  [[noreturn]] static void Kill() {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }

  bool keeps_journal() const { return journal_ >= 0; }
  // Paths are absolute here.
  void Note(Change change) const {
    if (journal_ < 0) return;
    for (std::string* path : {&change.path, &change.other}) {
      if (path == &change.other && change.what == Change::kWrite) continue;
      if (!path->empty()) path->erase(0, std::min(root_.size() + 1, path->size()));
    }
    ChangeHeader header = {};
    header.what = static_cast<char>(change.what);
    header.path_bytes = static_cast<uint32_t>(change.path.size());
    header.other_bytes = static_cast<uint32_t>(change.other.size());
    header.inode = change.inode;
    header.offset = change.offset;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes += change.path;
    bytes += change.other;
    const ssize_t put = FOLIO_REAL(write)(journal_, bytes.data(), bytes.size());
    if (put != static_cast<ssize_t>(bytes.size())) CannotFollow("the journal");
  }
  void NoteOf(int fd, Change::What what, uint64_t offset = 0, std::string path = {}) const {
    struct stat info = {};
    if (journal_ >= 0 && fstat(fd, &info) == 0) Note({what, info.st_ino, offset, std::move(path)});
  }

 private:
  void NoteWhatIsThere(const std::string& below) {
    const std::string here = root_ + below;
    struct stat info = {};
    if (stat(here.c_str(), &info) != 0) return;
    Note({Change::kThereDirectory, info.st_ino, 0, here});
    DIR* directory = opendir(here.c_str());
    if (directory == nullptr) return;
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name, path = here + "/" + name;
      if (name == "." || name == ".." || lstat(path.c_str(), &info) != 0) continue;
      if (S_ISDIR(info.st_mode)) {
        NoteWhatIsThere(below + "/" + name);
      } else if (S_ISREG(info.st_mode)) {
        Note({Change::kThereFile, info.st_ino, 0, path});
      } else {
        CannotFollow(path);
      }
    }
    closedir(directory);
  }

  std::string root_;
  Rules rules_;
  Counts own_;
  Counts* counts_ = &own_;
  int journal_ = -1;
  std::mutex mutex_;
};

Layer& TheLayer() {
  static Layer* const layer = new Layer;  // programs write until their very end
  return *layer;
}

using Lock = std::lock_guard<std::mutex>;

int Fail(int error) {
  errno = error;
  return -1;
}

bool MayChange(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

// Opens by `open`, which returns a file descriptor or a negative number.
template <class Open>
int Opened(const std::string& path, bool empties, const Open& open) {
  Layer& layer = TheLayer();
  const Lock lock(layer.mutex());
  if (const Verdict verdict = layer.Count(kOpenCall); verdict.error != 0)
    return Fail(verdict.error);
  struct stat info = {};
  const bool there = lstat(path.c_str(), &info) == 0;
  if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) CannotFollow(path);
  const int fd = open();
  if (fd < 0) return fd;
  if (!there) layer.NoteOf(fd, Change::kCreate, 0, path);
  if (there && empties && info.st_size > 0) layer.NoteOf(fd, Change::kTruncate, 0);
  return fd;
}

int OpenAt(int at, const char* path, int flags, mode_t mode) {
  const auto open = [&] { return FOLIO_REAL(openat)(at, path, flags, mode); };
  if (!MayChange(flags)) return open();
  const std::string whole = PathOf(at, path);
  if (!TheLayer().Below(whole)) return open();
  return Opened(whole, (flags & O_TRUNC) != 0, open);
}

// Writes at most `most` bytes by `write`, at `offset` or, if that is negative, where the file is.
template <class Write>
ssize_t Written(int fd, size_t bytes, off_t offset, const Write& write) {
  Layer& layer = TheLayer();
  const Lock lock(layer.mutex());
  const Verdict verdict = layer.Count(kWriteCall, bytes);
  if (verdict.error != 0) return Fail(verdict.error);
  std::string buffer;
  const ssize_t put = write(std::min(bytes, verdict.most), buffer);
  if (put > 0 && layer.keeps_journal()) {
    const off_t at = offset >= 0 ? offset : lseek(fd, 0, SEEK_CUR) - put;
    struct stat info = {};
    fstat(fd, &info);
    buffer.resize(static_cast<size_t>(put));
    layer.Note({Change::kWrite, info.st_ino, static_cast<uint64_t>(at), "", std::move(buffer)});
  }
  if (verdict.kill) Layer::Kill();
  return put;
}

// A call on names: `call` executes it and `change` describes it.
template <class Call>
int Renamed(Kind kind, const Change& change, const Call& call) {
  Layer& layer = TheLayer();
  const bool below = layer.Below(change.path);
  if (!change.other.empty() && below != layer.Below(change.other)) {
    CannotFollow(change.path + " -> " + change.other);
  }
  if (!below) return call();
  const Lock lock(layer.mutex());
  if (const Verdict verdict = layer.Count(kind); verdict.error != 0) return Fail(verdict.error);
  const int result = call();
  if (result == 0) layer.Note(change);
  return result;
}

int MkdirAt(int at, const char* path, mode_t mode) {
  Layer& layer = TheLayer();
  const std::string whole = PathOf(at, path);
  const auto make = [&] { return FOLIO_REAL(mkdirat)(at, path, mode); };
  if (!layer.Below(whole)) return make();
  const Lock lock(layer.mutex());
  if (const Verdict verdict = layer.Count(kMkdirCall); verdict.error != 0)
    return Fail(verdict.error);
  const int result = make();
  struct stat info = {};
  if (result == 0 && stat(whole.c_str(), &info) == 0) {
    layer.Note({Change::kMkdir, info.st_ino, 0, whole});
  }
  return result;
}

int Truncated(int fd, const char* path, off_t length) {
  Layer& layer = TheLayer();
  const auto truncate = [&] {
    return path != nullptr ? FOLIO_REAL(truncate)(path, length) : FOLIO_REAL(ftruncate)(fd, length);
  };
  if (path != nullptr ? !layer.Below(PathOf(AT_FDCWD, path)) : !layer.Below(fd)) return truncate();
  const Lock lock(layer.mutex());
  if (const Verdict verdict = layer.Count(kTruncateCall); verdict.error != 0)
    return Fail(verdict.error);
  const int result = truncate();
  struct stat info = {};
  if (result == 0 && (path != nullptr ? stat(path, &info) : fstat(fd, &info)) == 0) {
    layer.Note({Change::kTruncate, info.st_ino, static_cast<uint64_t>(length)});
  }
  return result;
}

int Synced(int fd, int (*sync)(int fd)) {
  Layer& layer = TheLayer();
  if (!layer.Below(fd)) return sync(fd);
  const Lock lock(layer.mutex());
  if (const Verdict verdict = layer.Count(kSyncCall); verdict.error != 0)
    return Fail(verdict.error);
  const int result = sync(fd);
  if (result == 0) layer.NoteOf(fd, Change::kSync);
  return result;
}

// Returns the errno with which closing this file must fail, or 0.
int CloseError(int fd) {
  Layer& layer = TheLayer();
  const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || !layer.Below(fd)) return 0;
  const Lock lock(layer.mutex());
  return layer.Count(kCloseCall).error;
}

FILE* OpenStream(const char* path, const char* mode, FILE* (*open)(const char*, const char*)) {
  const std::string_view how = mode;
  const std::string whole = PathOf(AT_FDCWD, path);
  if (how.find_first_of("wa+") == how.npos || !TheLayer().Below(whole)) return open(path, mode);
  FILE* stream = nullptr;
  Opened(whole, how.starts_with('w'), [&] {
    stream = open(path, mode);
    return stream == nullptr ? -1 : fileno(stream);
  });
  return stream;
}

std::string Gathered(const iovec* parts, int count, size_t most) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  bytes.resize(std::min(bytes.size(), most));
  return bytes;
}

mode_t ModeOf(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

}  // namespace
}  // namespace folio::faults

namespace layer = folio::faults;
using layer::Change;
using layer::PathOf;

extern "C" {

#define FOLIO_OPEN(name)                               \
  int name(const char* path, int flags, ...) {         \
    va_list rest;                                      \
    va_start(rest, flags);                             \
    const mode_t mode = layer::ModeOf(flags, rest);    \
    va_end(rest);                                      \
    return layer::OpenAt(AT_FDCWD, path, flags, mode); \
  }
#define FOLIO_OPEN_AT(name)                            \
  int name(int at, const char* path, int flags, ...) { \
    va_list rest;                                      \
    va_start(rest, flags);                             \
    const mode_t mode = layer::ModeOf(flags, rest);    \
    va_end(rest);                                      \
    return layer::OpenAt(at, path, flags, mode);       \
  }
FOLIO_OPEN(open)
FOLIO_OPEN(open64)
FOLIO_OPEN_AT(openat)
FOLIO_OPEN_AT(openat64)
int __open_2(const char* path, int flags) {
  return layer::OpenAt(AT_FDCWD, path, flags, 0);
}
int __open64_2(const char* path, int flags) {
  return layer::OpenAt(AT_FDCWD, path, flags, 0);
}
int __openat_2(int at, const char* path, int flags) {
  return layer::OpenAt(at, path, flags, 0);
}
int __openat64_2(int at, const char* path, int flags) {
  return layer::OpenAt(at, path, flags, 0);
}
int creat(const char* path, mode_t mode) {
  return layer::OpenAt(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) {
  return creat(path, mode);
}
FILE* fopen(const char* path, const char* mode) {
  return layer::OpenStream(path, mode, FOLIO_REAL(fopen));
}
FILE* fopen64(const char* path, const char* mode) {
  return layer::OpenStream(path, mode, FOLIO_REAL(fopen64));
}

ssize_t write(int fd, const void* from, size_t bytes) {
  const auto put = [&](size_t most, std::string& copy) {
    const ssize_t done = FOLIO_REAL(write)(fd, from, most);
    if (done > 0) copy.assign(static_cast<const char*>(from), static_cast<size_t>(done));
    return done;
  };
  std::string ignored;
  if (!layer::TheLayer().Below(fd)) return FOLIO_REAL(write)(fd, from, bytes);
  return layer::Written(fd, bytes, -1, put);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  if (!layer::TheLayer().Below(fd)) return FOLIO_REAL(pwrite)(fd, from, bytes, offset);
  return layer::Written(fd, bytes, offset, [&](size_t most, std::string& copy) {
    const ssize_t done = FOLIO_REAL(pwrite)(fd, from, most, offset);
    if (done > 0) copy.assign(static_cast<const char*>(from), static_cast<size_t>(done));
    return done;
  });
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off_t offset) {
  return pwrite(fd, from, bytes, offset);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  if (!layer::TheLayer().Below(fd)) return FOLIO_REAL(writev)(fd, parts, count);
  const size_t bytes = layer::Gathered(parts, count, SIZE_MAX).size();
  return layer::Written(fd, bytes, -1, [&](size_t most, std::string& copy) {
    copy = layer::Gathered(parts, count, most);
    return FOLIO_REAL(write)(fd, copy.data(), copy.size());
  });
}

int ftruncate(int fd, off_t length) {
  return layer::Truncated(fd, nullptr, length);
}
int ftruncate64(int fd, off_t length) {
  return layer::Truncated(fd, nullptr, length);
}
int truncate(const char* path, off_t length) {
  return layer::Truncated(-1, path, length);
}
int truncate64(const char* path, off_t length) {
  return layer::Truncated(-1, path, length);
}

// Allocated bytes read as zeros: in the journal they are the new length.
int fallocate(int fd, int mode, off_t offset, off_t length) {
  layer::Layer& the = layer::TheLayer();
  if (!the.Below(fd)) return FOLIO_REAL(fallocate)(fd, mode, offset, length);
  const layer::Lock lock(the.mutex());
  if (const auto verdict = the.Count(layer::kAllocateCall); verdict.error != 0) {
    return layer::Fail(verdict.error);
  }
  if (mode != 0) layer::CannotFollow("fallocate with a mode");
  const int result = FOLIO_REAL(fallocate)(fd, mode, offset, length);
  struct stat info = {};
  if (result == 0 && fstat(fd, &info) == 0) {
    the.Note({Change::kTruncate, info.st_ino, static_cast<uint64_t>(info.st_size)});
  }
  return result;
}
int fallocate64(int fd, int mode, off_t offset, off_t length) {
  return fallocate(fd, mode, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
  return fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off_t offset, off_t length) {
  return posix_fallocate(fd, offset, length);
}

int fsync(int fd) {
  return layer::Synced(fd, FOLIO_REAL(fsync));
}
int fdatasync(int fd) {
  return layer::Synced(fd, FOLIO_REAL(fdatasync));
}

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  const auto what = (flags & RENAME_EXCHANGE) != 0 ? Change::kExchange : Change::kRename;
  return layer::Renamed(layer::kRenameCall, {what, 0, 0, PathOf(from_at, from), PathOf(to_at, to)},
                        [&] { return FOLIO_REAL(renameat2)(from_at, from, to_at, to, flags); });
}
int renameat(int from_at, const char* from, int to_at, const char* to) {
  return renameat2(from_at, from, to_at, to, 0);
}
int rename(const char* from, const char* to) {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_at, const char* from, int to_at, const char* to, int flags) {
  return layer::Renamed(layer::kLinkCall,
                        {Change::kLink, 0, 0, PathOf(from_at, from), PathOf(to_at, to)},
                        [&] { return FOLIO_REAL(linkat)(from_at, from, to_at, to, flags); });
}
int link(const char* from, const char* to) {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int symlinkat(const char* to, int at, const char* path) {
  if (layer::TheLayer().Below(PathOf(at, path))) layer::CannotFollow("a symbolic link");
  return FOLIO_REAL(symlinkat)(to, at, path);
}
int symlink(const char* to, const char* path) {
  return symlinkat(to, AT_FDCWD, path);
}

int unlinkat(int at, const char* path, int flags) {
  return layer::Renamed(layer::kUnlinkCall, {Change::kRemove, 0, 0, PathOf(at, path), ""},
                        [&] { return FOLIO_REAL(unlinkat)(at, path, flags); });
}
int unlink(const char* path) {
  return unlinkat(AT_FDCWD, path, 0);
}
int rmdir(const char* path) {
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) {
  const int result = unlink(path);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int at, const char* path, mode_t mode) {
  return layer::MkdirAt(at, path, mode);
}
int mkdir(const char* path, mode_t mode) {
  return layer::MkdirAt(AT_FDCWD, path, mode);
}

int close(int fd) {
  const int error = layer::CloseError(fd);
  const int result = FOLIO_REAL(close)(fd);
  return error != 0 ? layer::Fail(error) : result;
}
int fclose(FILE* stream) {
  const int error = layer::CloseError(fileno(stream));
  const int result = FOLIO_REAL(fclose)(stream);
  return error != 0 ? layer::Fail(error) : result;
}

// The layer cannot follow these calls.
void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if ((flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0 && layer::TheLayer().Below(fd)) {
    layer::CannotFollow("a file that is mapped for writing");
  }
  return FOLIO_REAL(mmap)(at, bytes, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(at, bytes, protection, flags, fd, offset);
}
ssize_t sendfile(int to, int from, off_t* offset, size_t bytes) {
  if (layer::TheLayer().Below(to)) layer::CannotFollow("sendfile");
  return FOLIO_REAL(sendfile)(to, from, offset, bytes);
}
ssize_t copy_file_range(int from, off_t* from_at, int to, off_t* to_at, size_t bytes,
                        unsigned flags) {
  if (layer::TheLayer().Below(to)) layer::CannotFollow("copy_file_range");
  return FOLIO_REAL(copy_file_range)(from, from_at, to, to_at, bytes, flags);
}

}  // extern "C"
