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

// As long as one lives, no symbolic link below its directory is followed by what writes there
// (io/file.h and the functions below): a link on the way to a name is
// an error, and one under the name itself is replaced or removed, never what it points to. Names
// are looked up from the directory downwards, each time anew, so that one that was away may come
// back. The directory itself may be a link, and file systems may be mounted below.
class GuardedDirectory {
 public:
  explicit GuardedDirectory(const std::filesystem::path& path);
  // The directory must not be a link either: only its parent is taken as it is named.
  static GuardedDirectory AlsoItself(const std::filesystem::path& path);

  struct Guard;

 private:
  explicit GuardedDirectory(std::shared_ptr<const Guard> guard) : guard_(std::move(guard)) {}

  std::shared_ptr<const Guard> guard_;
};

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

// A library that is opened when it is first needed and not with the program, which would take
// longer to start: such libraries bring dozens of others.
class LateLibrary {
 public:
  // Opens the first of `names` that is on this machine, for as long as the program runs. `refusal`
  // makes the Error for where there is none, or one that lacks a function.
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
// Why nothing can be found at `path`: that it is not there, or what keeps one from looking, such as
// links that lead back to themselves.
std::string WhyNotThere(const std::filesystem::path& path);

// How folio opens what it reads (tests/layering.cmake looks for other ways): at once, whoever may
// have put a pipe without a writer there, and regular files alone, since devices have no end.
// Throws a kInput Error that says what is there instead.
FileDescriptor OpenForReading(const std::filesystem::path& path);
// The same without an Error: the descriptor is -1 then. `flags` are further ones of open().
FileDescriptor OpenIfRegular(const std::filesystem::path& path, int flags = 0);
// For what is read as it comes (byte_input.h): also a pipe, a terminal, or /dev/null.
// Reading from it does not wait either.
FileDescriptor OpenStream(const std::filesystem::path& path);

// Writes all of `left`, and leaves what could not be written there. Returns an errno, or 0.
int WriteAll(int fd, std::string_view& left);

// Throws the kInput Error of a file that cannot be read.
[[noreturn]] void ThrowCannotRead(const std::filesystem::path& path, int error);
// Throws the kRuntime Error of an output that cannot be written; explains a full disk.
[[noreturn]] void ThrowCannotWrite(const std::filesystem::path& path, int error);

// Throws the kRuntime Error of an output that another process is writing.
[[noreturn]] void ThrowBusy(const std::filesystem::path& path);

// A name in a directory that is held open, so that several calls are about the same place. All
// calls return what the system's do and leave its errno; where the directory cannot be opened, the
// reason for that.
class HeldName {
 public:
  explicit HeldName(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  // The calls below take the name, or another one in its directory. Open follows a link that is not
  // guarded, unless it is told O_NOFOLLOW; the others are about the name itself.
  int Open(int flags) const { return Open(name_, flags); }
  int Open(const std::string& name, int flags) const;
  int Stat(struct stat& info) const { return Stat(name_, info); }
  int Stat(const std::string& name, struct stat& info) const;
  bool IsThere() const;
  int MakeDirectory(const std::string& name) const;
  int Rename(const std::string& from, const std::string& to) const;
  // In one step; fails where the file system cannot do that.
  int Exchange(const std::string& one, const std::string& other) const;
  int RenameTo(const HeldName& to) const;
  int LinkTo(const HeldName& to) const;
  int Remove(const std::string& name) const;      // a file or a link
  int RemoveTree(const std::string& name) const;  // whatever it is
  // The names in its directory, in no order; none where it cannot be read.
  std::vector<std::string> Siblings() const;
  // Makes the names of the directory durable. A file system that cannot do that is no error.
  int SyncDirectory() const;

 private:
  bool Ready() const;

  std::string name_;
  bool guarded_ = false;  // links are refused
  FileDescriptor directory_{-1};
  int error_ = 0;  // why there is no directory
};

// Opens the directory `rest` (names with slashes between) below `root`, without following links.
// `in_one_call` false takes the road of kernels without openat2. -1 and errno: ELOOP for a link.
int OpenBeneath(int root, const std::string& rest, bool in_one_call = true);

// `path`, absolute, if it is below a guarded directory; else empty.
std::filesystem::path GuardedPath(const std::filesystem::path& path);

// By HeldName. What is there is asked of the name itself, be it a link to nothing.
int OpenFile(const std::filesystem::path& path, int flags);
bool IsThere(const std::filesystem::path& path);
bool IsDirectoryItself(const std::filesystem::path& path);
// In no order. `error`, if given, says why some may be missing.
std::vector<std::string> NamesIn(const std::filesystem::path& directory,
                                 std::error_code* error = nullptr);
std::error_code Rename(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code Link(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code MakeDirectory(const std::filesystem::path& path);  // one that is there is none
std::error_code RemoveTree(const std::filesystem::path& path);     // nothing there is none

// The place a write to `target` goes to: absolute, no slash at its end, symbolic links followed but
// for those below a guarded directory. Throws a kRuntime Error if its directory does not exist or
// it names no file.
std::filesystem::path ResolveTarget(const std::filesystem::path& target);

// Returns whether `path`, itself and not what it may be a link to, is there and belongs to this
// user. In a directory that all may write to, what others have put there is neither taken over nor
// removed.
bool IsOwn(const std::filesystem::path& path);

// `.NAME.tmp-PID`, beside a resolved target.
std::string TemporaryFor(const HeldName& target);

// Removes temporaries of `target` that no process holds locked, and ends what a ReplaceDirectory
// left half done whose process is gone, all of it this user's own: `.NAME.new-PID` is whole and
// takes its place; without one
// `.NAME.old-PID` is put back if the target is missing, else removed.
void CleanLeftovers(const HeldName& target);

// Put what was written to a file on the disk; FlushData without what only describes the file. 0, or
// -1 and errno.
int FlushFile(int fd);
int FlushData(int fd);

// Takes the lock that marks a temporary as being written. On a file system without locks it does
// nothing, and CleanLeftovers removes nothing.
void LockTemporary(int fd);

// Makes the entries of a directory durable. Throws a kRuntime Error on an I/O error.
void SyncDirectory(const std::filesystem::path& directory);

// Puts the directory `from`, which lies beside `to`, in its place (missing or a directory) and
// removes what was there; what cannot be removed is left to CleanLeftovers. Errors say `name`.
// `may_exchange` false takes the road of systems that cannot exchange two names.
void ReplaceDirectory(const HeldName& to, const std::string& from,
                      const std::filesystem::path& name, bool may_exchange = true);

}  // namespace internal
}  // namespace folio
