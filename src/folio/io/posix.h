#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "folio/base/error.h"

struct stat;

namespace folio {

// While one exists, writers (io/file.h and the functions below) follow no symbolic link below its
// directory: a link on the way to a name is an error, and a link under the name itself is replaced
// or removed, never its target. Names are looked up from the directory downwards on every call, so
// that a directory that was unmounted may come back. The directory itself may be a link, and file
// systems may be mounted below it.
class GuardedDirectory {
 public:
  explicit GuardedDirectory(const std::filesystem::path& path);
  // The directory must not be a link either: only its parent is resolved.
  static GuardedDirectory AlsoItself(const std::filesystem::path& path);

  struct Guard;

 private:
  explicit GuardedDirectory(std::shared_ptr<const Guard> guard) : guard_(std::move(guard)) {}

  std::shared_ptr<const Guard> guard_;
};

// Returns true if `name`, which a file contains, can name a file beside it, and is no path.
bool IsFileName(std::string_view name);

namespace internal {

// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A library that is opened when first needed and not at program start, which would become slower:
// such libraries load dozens of others.
class LateLibrary {
 public:
  // Opens the first of `names` that is installed, until the program ends. `refusal` makes the Error
  // if none is, or if it lacks a function.
  LateLibrary(std::initializer_list<const char*> names, Error (*refusal)(const char* cause));

 protected:
  template <class Function>
  Function Find(const char* name) const {
    return reinterpret_cast<Function>(FindSymbol(name));
  }

 private:
  void* FindSymbol(const char* name) const;

  void* library_ = nullptr;
  Error (*refusal_)(const char* cause);
};
// Declares a member of a LateLibrary: its function of that name.
#define FOLIO_LATE_FUNCTION(name) decltype(&::name) name = Find<decltype(&::name)>(#name)

std::string ErrnoText(int error);
// Why nothing can be found at `path`: that it does not exist, or what prevents access, such as
// links that lead back to themselves.
std::string WhyNotThere(const std::filesystem::path& path);

// How folio opens files for reading (tests/layering.cmake forbids other ways): without blocking on
// a pipe that has no writer, and only regular files, since devices have no end. Throws a kInput
// Error that says what is there instead.
FileDescriptor OpenForReading(const std::filesystem::path& path);
// The same without an Error: the descriptor is -1 on failure. `flags` are added to those of open().
FileDescriptor OpenIfRegular(const std::filesystem::path& path, int flags = 0);
// For what is read as it comes (byte_input.h): also a pipe, a terminal, or /dev/null.
// Reading from it does not wait either.
FileDescriptor OpenStream(const std::filesystem::path& path);

// Writes `left`; what could not be written stays in it. Returns an errno, or 0.
int WriteAll(int fd, std::string_view& left);

// Throws the kInput Error for a file that cannot be read.
[[noreturn]] void ThrowCannotRead(const std::filesystem::path& path, int error);
// Throws the kRuntime Error for an output that cannot be written; explains a full disk.
[[noreturn]] void ThrowCannotWrite(const std::filesystem::path& path, int error);

// Throws the kRuntime Error for an output that another process is writing.
[[noreturn]] void ThrowBusy(const std::filesystem::path& path);

// A name in a directory that is held open, so that several calls refer to the same place. Calls
// return what the system calls return and leave errno; if the directory could not be opened, errno
// is the reason for that.
class HeldName {
 public:
  explicit HeldName(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  // The calls below use the name, or another one in its directory. Open follows a link that is not
  // guarded, unless given O_NOFOLLOW; the others act on the name itself.
  int Open(int flags) const { return Open(name_, flags); }
  int Open(const std::string& name, int flags) const;
  int Stat(struct stat& info) const { return Stat(name_, info); }
  int Stat(const std::string& name, struct stat& info) const;
  bool IsThere() const;
  int MakeDirectory(const std::string& name) const;
  int Rename(const std::string& from, const std::string& to) const;
  // Atomic; fails if the file system cannot do that.
  int Exchange(const std::string& one, const std::string& other) const;
  int RenameTo(const HeldName& to) const;
  int LinkTo(const HeldName& to) const;
  int Remove(const std::string& name) const;      // a file or a link
  int RemoveTree(const std::string& name) const;  // whatever it is
  // The names in its directory, in no order; none where it cannot be read.
  std::vector<std::string> Siblings() const;
  // Flushes the directory's names to disk. A file system that cannot do that is no error.
  int SyncDirectory() const;

 private:
  bool Ready() const;

  std::string name_;
  bool guarded_ = false;  // true: links are refused
  FileDescriptor directory_{-1};
  int error_ = 0;  // why the directory could not be opened
};

// Opens the directory `rest` (names separated by slashes) below `root`, without following links.
// `in_one_call` false takes the path of kernels without openat2. Returns -1 and sets errno on
// failure: ELOOP for a link.
int OpenBeneath(int root, const std::string& rest, bool in_one_call = true);

// `path` as absolute path if it is below a guarded directory; else empty.
std::filesystem::path GuardedPath(const std::filesystem::path& path);

// These work through HeldName, on the name itself, even if it is a dangling link.
int OpenFile(const std::filesystem::path& path, int flags);
bool IsThere(const std::filesystem::path& path);
bool IsDirectoryItself(const std::filesystem::path& path);
// In no order. `error`, if given, says why some may be missing.
std::vector<std::string> NamesIn(const std::filesystem::path& directory,
                                 std::error_code* error = nullptr);
std::error_code Rename(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code Link(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code MakeDirectory(const std::filesystem::path& path);  // success if it exists already
std::error_code RemoveTree(const std::filesystem::path& path);     // success if nothing exists

// The path that a write to `target` goes to: absolute, no slash at its end, symbolic links resolved
// except below a guarded directory. Throws a kRuntime Error if its directory does not exist or it
// names no file.
std::filesystem::path ResolveTarget(const std::filesystem::path& target);

// Returns true if `path` itself (not the target of a link) exists and belongs to this user. In a
// directory that all may write to, files of other users are neither taken over nor removed.
bool IsOwn(const std::filesystem::path& path);

// `.NAME.tmp-PID`, beside a resolved target.
std::string TemporaryFor(const HeldName& target);

// Removes temporary files of `target` that no process holds locked, and completes a
// ReplaceDirectory of a process that has ended, only for this user's files: `.NAME.new-PID` is
// complete and takes the target's place; without one `.NAME.old-PID` is restored if the target is
// missing, else removed.
void CleanLeftovers(const HeldName& target);

// Flush a file to disk; FlushData leaves out metadata that reading does not need. Return 0, or -1
// and errno.
int FlushFile(int fd);
int FlushData(int fd);

// Takes the lock that marks a temporary file as being written. Without lock support in the file
// system it does nothing, and CleanLeftovers removes nothing.
void LockTemporary(int fd);

// Flushes the entries of a directory to disk. Throws a kRuntime Error on an I/O error.
void SyncDirectory(const std::filesystem::path& directory);

// Moves the directory `from`, which lies beside `to`, to its place (missing or a directory) and
// removes the old one; what cannot be removed is left to CleanLeftovers. Errors name `name`.
// `may_exchange` false takes the path of systems that cannot exchange two names.
void ReplaceDirectory(const HeldName& to, const std::string& from,
                      const std::filesystem::path& name, bool may_exchange = true);

}  // namespace internal
}  // namespace folio
