#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

class GuardedDirectory;  // posix.h
namespace internal {
struct Unfinished;  // file.cc
struct UnmapFile {
  size_t size = 0;
  bool mapped = false, owned = true;  // not mapped: read; not owned: another's memory
  void operator()(const std::byte* data) const;
};
}  // namespace internal

// The whole regular file as bytes. Throws a kInput Error if it is missing, of another kind,
// unreadable or longer than max_bytes, which is for each reader to say.
std::string ReadFile(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 32);

// Returns whether `path` is a regular file that begins with these bytes. Throws a kInput Error if
// it cannot be read.
bool FileBeginsWith(const std::filesystem::path& path, std::string_view bytes);

// Returns what is at `path`, links followed, also in memory (memory_files.h): nothing where it
// cannot be looked at.
bool Exists(const std::filesystem::path& path);
bool IsFile(const std::filesystem::path& path);
bool IsDirectory(const std::filesystem::path& path);
// The names in a directory, likewise, in no order; none where it cannot be read.
std::vector<std::string> NamesIn(const std::filesystem::path& directory);

// Throws a kInput Error if there is nothing at `path`, which somebody typed and may have misspelt.
void RequireTyped(const std::filesystem::path& path);

// Throws a kInput Error unless `path` is a directory. `what` names its purpose: "the model
// directory".
void RequireDirectory(const std::filesystem::path& path, std::string_view what = "the directory");

// Returns whether `name`, which some file says, can be that of a file beside it, and is no path.
bool IsFileName(std::string_view name);

// Makes the directory and its missing parents, with durable names. Throws a kRuntime Error.
void CreateDirectories(const std::filesystem::path& path);
// The same for the directory that `path` will be in.
void CreateParentOf(const std::filesystem::path& path);
// The same as long as something is there: what it made goes with it where that is still empty,
// since what was to be written failed.
class MadeParents {
 public:
  explicit MadeParents(const std::filesystem::path& path);
  ~MadeParents();
  MadeParents(const MadeParents&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};
// Throws a kRuntime Error where the directory that `path` will be in is none, or one that nobody
// may write to: before the work, not after it.
void RequireParentOf(const std::filesystem::path& path);

// Throws a kUsage Error unless `out` may become a directory of some kind, a "data set" or a
// "tokenizer": it is not there, or empty, or an earlier one of the kind and `overwrite`. One that
// holds a file for which `is_part` (of its name) is false is something else and never replaced.
void CheckReplaceable(const std::string& out, const std::string& kind, bool overwrite,
                      const std::function<bool(const std::string& name)>& is_part);

// Throws a kUsage Error where the regular file `path` is there already, unless `overwrite`.
void CheckNewFile(const std::string& path, bool overwrite);

// How the bytes of a file come to memory: as pages that the system reads when they are looked at,
// or at once, which is what network disks want.
enum class Loading { kMap, kRead };

// A regular file seen as read-only memory. The bytes stay valid as long as the object, also when
// the name is unlinked or replaced; somebody who shortens the file in place kills the reader (see
// ReportMappedFaults), which is why folio only ever replaces files by rename.
class MappedFile {
 public:
  enum class Access { kNormal, kSequential, kRandom };

  MappedFile() = default;  // no file, no bytes
  // Throws a kInput Error if the path is missing, not a regular file or not readable.
  explicit MappedFile(const std::filesystem::path& path, Loading loading = Loading::kMap);

  const std::filesystem::path& path() const { return path_; }
  // Page-aligned at its start; empty for an empty file. Never to be written to. 64 bytes behind the
  // end can be read too, as vectors may.
  std::span<const std::byte> bytes() const {
    return {data_.get(), data_ == nullptr ? 0 : data_.get_deleter().size};
  }
  // Tells the system how the bytes will be read. Only a hint: never fails.
  void Advise(Access access) const;
  // Lets the memory of these bytes go, if they are a file's: it comes back from there if they are
  // looked at again.
  void Forget(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<const std::byte, internal::UnmapFile> data_;
  std::shared_ptr<const std::byte> in_memory_;  // then data_ lies there
};

// Somebody may shorten a file while it is mapped; who then looks at what is gone gets SIGBUS. From
// this call on the process ends with a message that names the file and exit status 3 instead, and
// leaves no half-written files (those that appear whole or not at all have not appeared). For
// programs: it takes the signal's handler. Other causes of SIGBUS end the process as before.
void ReportMappedFaults();

// Writes a file that appears under its name only when it is whole: bytes go to `.NAME.tmp-PID` in
// the same directory, Commit makes them durable and renames. Without Commit the destructor removes
// the temporary and the target is as it was. What a killed process left behind is removed by the
// next writer of the same target. A target that is a symbolic link is written where it points,
// below a guarded directory (posix.h) it is replaced.
// Not buffered: give it large pieces.
// Constructor, Write and Commit throw a kRuntime Error that names the path and the system's reason,
// also where another process is writing the same target.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }
  uint64_t written() const { return written_; }
  // Once; what follows it is a kUsage Error.
  void Commit();

 private:
  std::unique_ptr<internal::Unfinished> file_;
  uint64_t written_ = 0;
};

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);

// A directory that appears, or replaces the one of the same name, as a whole. Fill path(), then
// Commit. Where the system can exchange two names (Linux) the target is at every moment the old
// directory or the new one; elsewhere there is an instant in which it is missing, and if a crash
// fell into that instant the next writer puts the new one there. Without Commit the destructor
// removes the temporary. Errors as AtomicFile.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& target);
  ~AtomicDirectory();

  const std::filesystem::path& path() const { return path_; }
  // Flushes every file inside, swaps the directories, removes the old one. Once.
  void Commit();

 private:
  std::unique_ptr<internal::Unfinished> directory_;
  std::filesystem::path path_;
  std::unique_ptr<GuardedDirectory> inside_;
};

// Appends lines to a file. Where that fails, on a full disk, it is warned of once, and what is
// missing waits to be written before the next line.
class LineFile {
 public:
  // Makes the file where it is missing. Throws a kRuntime Error.
  explicit LineFile(const std::filesystem::path& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` ends in a line break.
  void Write(std::string_view line);
  // Lines that were written so far survive a power cut then.
  void Sync();
  // Does the same, and throws a kRuntime Error if something still waits and cannot be written now.
  void Finish();

 private:
  // 0, or the errno of what kept it from writing all that waits.
  int TryToWrite();
  void Warn(int error);

  std::filesystem::path path_;
  int fd_ = -1;
  std::string waiting_;
  bool warned_ = false;
};

// A file on its way here, which may take more than one try: its bytes are kept beside the target as
// `.NAME.KEY.part`, and the target appears only at Commit. KEY says which contents are coming, so
// that a later try goes on only with the beginning of the same. Constructor, Add and Commit throw a
// kRuntime Error that names the target and the system's reason, also where another process is at
// the same file.
class PartialFile {
 public:
  PartialFile(const std::filesystem::path& target, std::string_view key,
              int64_t worth_keeping = int64_t{1} << 20);
  // Keeps what has come where that is worth it: so many bytes or more.
  ~PartialFile();

  int64_t bytes() const { return bytes_; }
  // Where the bytes lie as long as it is not committed.
  const std::filesystem::path& path() const { return path_; }
  void Add(std::string_view piece);
  // Goes on behind the first `kept` bytes, or begins anew. REQUIRES: there are so many.
  void Clear(int64_t kept = 0);
  // Once; an Add or Commit behind it is a kUsage Error.
  void Commit();

 private:
  std::unique_ptr<internal::Unfinished> file_;
  std::filesystem::path path_;
  int64_t worth_keeping_;
  int64_t bytes_ = 0;
};

}  // namespace folio
