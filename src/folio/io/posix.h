#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "folio/base/error.h"

namespace folio::internal {

class HeldName;  // guarded_directory.h

// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

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
// For what is read as it comes (term/byte_streams.h): also a pipe, a terminal, or /dev/null.
// Reading from it does not wait either.
FileDescriptor OpenStream(const std::filesystem::path& path);

// Throws the kInput Error of a file that cannot be read.
[[noreturn]] void ThrowCannotRead(const std::filesystem::path& path, int error);
// Throws the kRuntime Error of an output that cannot be written; explains a full disk.
[[noreturn]] void ThrowCannotWrite(const std::filesystem::path& path, int error);

// Throws the kRuntime Error of an output that another process is writing.
[[noreturn]] void ThrowBusy(const std::filesystem::path& path);

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

}  // namespace folio::internal
