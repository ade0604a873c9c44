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
  bool mapped = false, owned = true;  // else: read; another's memory
  void operator()(const std::byte* data) const;
};
}  // namespace internal

// The whole regular file as bytes. Throws a kInput Error if it is missing, of another kind,
// unreadable or longer than max_bytes, a limit that each reader chooses.
std::string ReadFile(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 32);

// Returns true if `path` is a regular file that begins with these bytes. Throws a kInput Error if
// it cannot be read.
bool FileBeginsWith(const std::filesystem::path& path, std::string_view bytes);

// These follow links, and find files in memory too (memory_files.h). False if not accessible.
bool Exists(const std::filesystem::path& path);
bool IsFile(const std::filesystem::path& path);
bool IsDirectory(const std::filesystem::path& path);
// The names in a directory, in no order, in memory too; none if it cannot be read.
std::vector<std::string> NamesIn(const std::filesystem::path& directory);

// Throws a kInput Error if nothing exists at `path`, which a user typed and may have misspelt.
void RequireTyped(const std::filesystem::path& path);

// Throws a kInput Error unless `path` is a directory. `what` names its purpose: "the model
// directory".
void RequireDirectory(const std::filesystem::path& path, std::string_view what = "the directory");

// Makes the directory and its missing parents, with durable names. Throws a kRuntime Error.
void CreateDirectories(const std::filesystem::path& path);
// The same for the directory that `path` will be in.
void CreateParentOf(const std::filesystem::path& path);
// Makes the parents of `path`. When it is destroyed, those that it made and that are still empty
// are removed, since writing has failed.
class MadeParents {
 public:
  explicit MadeParents(const std::filesystem::path& path);
  ~MadeParents();
  MadeParents(const MadeParents&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};
// Throws a kRuntime Error, before any work is done, if the directory that `path` will be in is no
// directory or not writable.
void RequireParentOf(const std::filesystem::path& path);

// Throws a kUsage Error unless `out` may become a directory of this kind, "data set" or
// "tokenizer": it does not exist, is empty, or is an earlier one of the kind and `overwrite` is
// set. A directory that holds a file for whose name `is_part` returns false is something else and
// never replaced.
void CheckReplaceable(const std::string& out, const std::string& kind, bool overwrite,
                      const std::function<bool(const std::string& name)>& is_part);

// Throws a kUsage Error if the regular file `path` already exists, unless `overwrite`.
void CheckNewFile(const std::string& path, bool overwrite);

// How the bytes of a file come into memory: as pages that the system reads on access, or all at
// once, which suits network disks.
enum class Loading { kMap, kRead };

// A regular file as read-only memory. The bytes stay valid as long as the object, even when the
// name is unlinked or replaced; but whoever truncates the file in place kills the reader (see
// ReportMappedFaults), which is why folio replaces files only by rename.
class MappedFile {
 public:
  enum class Access { kNormal, kSequential };

  MappedFile() = default;  // no file, no bytes
  // Throws a kInput Error if the path is missing, not a regular file or not readable.
  explicit MappedFile(const std::filesystem::path& path, Loading loading = Loading::kMap);

  const std::filesystem::path& path() const { return path_; }
  // Page-aligned at its start; empty for an empty file. Must not be written to. 64 bytes behind the
  // end are readable too, for vector loads.
  std::span<const std::byte> bytes() const {
    return {data_.get(), data_ == nullptr ? 0 : data_.get_deleter().size};
  }
  // Tells the system how the bytes will be read. Only a hint: never fails.
  void Advise(Access access) const;
  // Releases the memory of these bytes if they belong to a file: they are read again on access.
  void Forget(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<const std::byte, internal::UnmapFile> data_;
  std::shared_ptr<const std::byte> in_memory_;  // set if the file is in memory; then data_ points
                                                // there
};

// A process that reads a mapped file which was truncated meanwhile gets SIGBUS. After this call
// such a process ends with a message that names the file and exit status 3, and leaves no
// half-written files (atomic files simply do not appear). For programs: it installs the signal's
// handler. Other causes of SIGBUS end the process as before.
void ReportMappedFaults();

// Writes a file that appears under its name only when it is complete: bytes go to `.NAME.tmp-PID`
// in the same directory; Commit flushes them to disk and renames. Without Commit the destructor
// removes the temporary file and the target is unchanged. Leftovers of a killed process are removed
// by the next writer of the same target. A symbolic link as target is followed, but replaced below
// a guarded directory (posix.h). Not buffered: write large pieces. Constructor, Write and Commit
// throw a kRuntime Error that names the path and the system's reason, also if another process is
// writing the same target.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }
  uint64_t written() const { return written_; }
  // Call once; any later call is a kUsage Error.
  void Commit();

 private:
  std::unique_ptr<internal::Unfinished> file_;
  uint64_t written_ = 0;
};

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);

// A directory that appears, or replaces the one of the same name, as a whole. Fill path(), then
// Commit. If the system can exchange two names (Linux) the target is at every moment the old or the
// new directory; elsewhere it is missing for an instant, and after a crash in that instant the next
// writer installs the new one. Without Commit the destructor removes the temporary directory.
// Errors as for AtomicFile.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& target);
  ~AtomicDirectory();

  const std::filesystem::path& path() const { return path_; }
  // Flushes every file inside, swaps the directories, removes the old one. Call once.
  void Commit();

 private:
  std::unique_ptr<internal::Unfinished> directory_;
  std::filesystem::path path_;
  std::unique_ptr<GuardedDirectory> inside_;
};

// Appends lines to a file. If that fails, as on a full disk, it warns once, and writes the missing
// lines before the next line.
class LineFile {
 public:
  // Creates the file if it is missing. Throws a kRuntime Error.
  explicit LineFile(const std::filesystem::path& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` ends in a line break.
  void Write(std::string_view line);
  // After this call the lines written so far survive a power cut.
  void Sync();
  // Like Sync, but throws a kRuntime Error if something still waits and cannot be written now.
  void Finish();

 private:
  // 0, or the errno that prevented the waiting lines from being written.
  int TryToWrite();
  void Warn(int error);

  std::filesystem::path path_;
  int fd_ = -1;
  std::string waiting_;
  bool warned_ = false;
};

// A download that may take more than one attempt: its bytes are kept beside the target as
// `.NAME.KEY.part`, and the target appears only at Commit. KEY identifies the contents, so that a
// later attempt continues only the same file. Constructor, Add and Commit throw a kRuntime Error
// that names the target and the system's reason, also if another process works on the same file.
class PartialFile {
 public:
  PartialFile(const std::filesystem::path& target, std::string_view key,
              int64_t worth_keeping = int64_t{1} << 20);
  // Keeps what was received if it is large enough.
  ~PartialFile();

  int64_t bytes() const { return bytes_; }
  // Where the bytes are until Commit.
  const std::filesystem::path& path() const { return path_; }
  void Add(std::string_view piece);
  // Continues behind the first `kept` bytes, or starts again. REQUIRES: there are that many.
  void Clear(int64_t kept = 0);
  // Call once; a later Add or Commit is a kUsage Error.
  void Commit();

 private:
  std::unique_ptr<internal::Unfinished> file_;
  std::filesystem::path path_;
  int64_t worth_keeping_;
  int64_t bytes_ = 0;
};

}  // namespace folio
