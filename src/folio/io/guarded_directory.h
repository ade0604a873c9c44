#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

struct stat;

namespace folio {

// As long as one lives, no symbolic link below its directory is followed by what writes there
// (io/file.h, line_file.h, partial_file.h and the functions below): a link on the way to a name is
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

// A name in a directory that is held open, so that several calls are about the same place. All
// calls return what the system's do and leave its errno; where the directory cannot be opened, the
// reason for that.
class HeldName {
 public:
  explicit HeldName(const std::filesystem::path& path);
  ~HeldName();
  HeldName(const HeldName&) = delete;
  HeldName& operator=(const HeldName&) = delete;

  // Returns whether links are refused.
  bool guarded() const { return guarded_; }
  const std::string& name() const { return name_; }
  // The calls below take the name, or another one in its directory. Open follows a link that is not
  // guarded, unless it is told O_NOFOLLOW; the others are about the name itself.
  int Open(int flags, mode_t mode = 0666) const { return Open(name_, flags, mode); }
  int Open(const std::string& name, int flags, mode_t mode = 0666) const;
  int Stat(struct stat& info) const { return Stat(name_, info); }
  int Stat(const std::string& name, struct stat& info) const;
  int MakeDirectory(const std::string& name) const;
  int Rename(const std::string& from, const std::string& to, unsigned flags = 0) const;
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
  bool guarded_ = false;
  int directory_ = -1;
  int error_ = 0;  // why there is no directory
};

// Opens the directory `rest` (names with slashes between) below `root`, without following links.
// `in_one_call` false takes the road of kernels without openat2. -1 and errno: ELOOP for a link.
int OpenBeneath(int root, const std::string& rest, bool in_one_call = true);

// `path`, absolute, if it is below a guarded directory; else empty.
std::filesystem::path GuardedPath(const std::filesystem::path& path);
// Why a link was refused: "RUN/last is a symbolic link, which is not followed here"; that it leads
// back to itself, for one that nobody guards.
std::string WhyNotFollowed(const std::filesystem::path& path);

// By HeldName. What is there is asked of the name itself, be it a link to nothing.
int OpenFile(const std::filesystem::path& path, int flags, mode_t mode = 0666);
bool IsThere(const std::filesystem::path& path);
bool IsDirectoryItself(const std::filesystem::path& path);
// In no order. `error`, if given, says why some may be missing.
std::vector<std::string> NamesIn(const std::filesystem::path& directory,
                                 std::error_code* error = nullptr);
std::error_code Rename(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code Link(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code MakeDirectory(const std::filesystem::path& path);  // one that is there is none
std::error_code RemoveTree(const std::filesystem::path& path);     // nothing there is none

}  // namespace internal
}  // namespace folio
