#pragma once

#include <sys/file.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {

// The right to write a run directory, of one process at a time. The kernel gives it back when its
// owner dies, however that is. Readers ask for no lock.
//
// It is flock's lock on RUN/.lock, which names process and host of its owner and is removed with
// the lock. On NFS, Linux makes a lock of the server's out of it, which holds between machines
// where the export and both mounts have locks (not with "nolock" or "local_lock=flock").
class RunLock {
 public:
  // Throws a kUsage Error that names the run and the owner if another has it, a kRuntime Error if
  // the directory cannot be written. Where the file system knows no locks there is one warning and
  // no protection. `lock` is flock, but for tests.
  explicit RunLock(const std::filesystem::path& run, int (*lock)(int fd, int operation) = flock);
  ~RunLock();
  RunLock(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  GuardedDirectory inside_;  // whoever may write the run writes nothing else
  int fd_ = -1;
};

// Returns whether somebody has the lock, as far as its file tells: a process of this machine that
// is there, or one of another. Asks for no lock itself.
bool IsLocked(const std::filesystem::path& run);

// A run directory:
//   config.toml     every setting, as `folio train --config` reads it
//   data/           the tokens, if training began from text
//   tokenizer/      the vocabulary, if it was learned from that text
//   metrics.jsonl   a line for each step (train/run_log.h)
//   samples.jsonl   what the model wrote on the way
//   loss.svg        the loss curves, at the end
//   tensorboard/    event files (train/tensorboard.h), with log.tensorboard
//   base/           the model that training of adapters began with
//   last/, best/    checkpoints (train/checkpoints.h)
//   steps/          earlier ones
//   .lock           while somebody trains in it (RunLock)
//   .new/           the parts of a run that has not begun: thrown away if it never does
//   .old/           those of a run that is being replaced
//   .begun/         those of a run that has begun, on their way to their places
inline constexpr char kRunConfigFile[] = "config.toml";
inline constexpr char kRunDataDir[] = "data";
inline constexpr char kRunTokenizerDir[] = "tokenizer";
inline constexpr char kRunSourceFile[] = "data.path";  // where the tokens are, if not in data/
inline constexpr char kRunFingerprintFile[] = "data.fingerprint";  // of the tokens it began with
inline constexpr char kSamplesFile[] = "samples.jsonl";
inline constexpr char kTensorBoardDir[] = "tensorboard";

// Returns whether any part of a run is there.
bool HoldsRun(const std::filesystem::path& run);

// Throws a kInput Error that names a symbolic link among the parts of a run, at any depth: whoever
// goes on with a run replaces them.
void RequireNoLinks(const std::filesystem::path& run);

// Ends what a killed process left half done: a run that had begun is whole again, one that had not
// is gone and the one that it was to replace is back, and so are checkpoints. Whoever has the lock
// does it before anything else. Throws a kRuntime Error if it cannot.
void RecoverRun(const std::filesystem::path& run);

// A run that has not begun yet. It grows in a directory of its own inside of the run directory,
// where a run that is to be replaced stays as it is, and takes its place when it begins. If it
// never does, nothing of it is left.
class NewRun {
 public:
  // Makes the directory and takes its lock, unless the caller has it. One that holds a run already
  // is a kUsage Error, unless `overwrite`.
  NewRun(std::filesystem::path run, bool overwrite, std::unique_ptr<RunLock> lock = nullptr);
  ~NewRun();
  NewRun(const NewRun&) = delete;

  // The directory in which its parts are made, until it begins.
  std::filesystem::path path() const;
  // The bytes that are freed on the disk when it begins.
  uint64_t ReplacedBytes() const;
  // Training begins: the parts are in the run directory from here on, and those of a run that was
  // replaced are gone. A process that is killed here leaves what RecoverRun makes one of the two.
  void Begun();

 private:
  std::filesystem::path run_;
  MadeParents parents_;
  std::unique_ptr<RunLock> lock_;
  bool made_ = false;  // the directory was not there before
  bool begun_ = false;
};

// Throws a kRuntime Error where the `disk` of the run, with `freed` bytes more, has no room for a
// checkpoint of so many bytes, and warns where it has none for `together`, which the run keeps and
// writes. A disk that does not tell its size passes.
void RequireRoom(const std::filesystem::path& run, const std::filesystem::space_info& disk,
                 uint64_t freed, uint64_t checkpoint_bytes, int64_t together);

// Draws RUN/loss.svg from RUN/metrics.jsonl.
void DrawLossFigure(const std::filesystem::path& run);

}  // namespace folio
