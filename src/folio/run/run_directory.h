#pragma once

#include <sys/file.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {

// The right of one process at a time to write a run directory. The kernel releases it when the
// process ends, in whatever way. Readers need no lock.
//
// It is flock's lock on RUN/.lock, which contains process and host of its owner and is removed with
// the lock. On NFS, Linux turns it into a lock of the server, which holds between machines if the
// export and both mounts support locks (not with "nolock" or "local_lock=flock").
class RunLock {
 public:
  // Throws a kUsage Error that names the run and the owner if another process has it, and a
  // kRuntime Error if the directory cannot be written. On a file system without locks it gives a
  // warning, and no protection. `lock` is flock, except in tests.
  explicit RunLock(const std::filesystem::path& run, int (*lock)(int fd, int operation) = flock);
  ~RunLock();
  RunLock(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  GuardedDirectory inside_;  // the owner writes nothing outside of it
  int fd_ = -1;
};

// Returns true if, according to its file, a running process of this machine has the lock, or a
// process of another machine. Takes no lock.
bool IsLocked(const std::filesystem::path& run);

// A run directory:
//   config.toml     every setting, as `folio train --config` reads it
//   data/           the tokens, if training began from text
//   tokenizer/      the vocabulary, if it was learned from that text
//   metrics.jsonl   a line for each step (train/run_log.h)
//   samples.jsonl   texts that the model wrote during training
//   loss.svg        the loss curves, at the end
//   tensorboard/    event files (train/tensorboard.h), with log.tensorboard
//   base/           the model for which adapters are trained
//   last/, best/    checkpoints (train/checkpoints.h)
//   steps/          earlier ones
//   .lock           while a process trains in it (RunLock)
//   .new/           the parts of a run that has not begun; removed if it never does
//   .old/           those of a run that is being replaced
//   .begun/         those of a run that has begun, before they are moved to their places
inline constexpr char kRunConfigFile[] = "config.toml";
inline constexpr char kRunDataDir[] = "data";
inline constexpr char kRunTokenizerDir[] = "tokenizer";
inline constexpr char kRunSourceFile[] = "data.path";  // the directory of the tokens, if not data/
inline constexpr char kRunFingerprintFile[] = "data.fingerprint";  // of the tokens it began with
inline constexpr char kSamplesFile[] = "samples.jsonl";
inline constexpr char kTensorBoardDir[] = "tensorboard";

// Returns true if any part of a run exists.
bool HoldsRun(const std::filesystem::path& run);

// Throws a kInput Error that names a symbolic link among the parts of a run, at any depth, because
// a run that continues would replace it.
void RequireNoLinks(const std::filesystem::path& run);

// Recovers from a killed process: completes a run that had begun, removes one that had not and
// restores the run that it was to replace, and likewise for checkpoints. Must be called with the
// lock, before anything else. Throws a kRuntime Error if it cannot.
void RecoverRun(const std::filesystem::path& run);

// A run that has not begun yet. Its files are made in a directory of its own inside the run
// directory, and replace an existing run when it begins. If it never begins, nothing of it is left.
class NewRun {
 public:
  // Creates the directory and takes its lock, unless the caller has it. Throws a kUsage Error if it
  // already contains a run, unless `overwrite`.
  NewRun(std::filesystem::path run, bool overwrite, std::unique_ptr<RunLock> lock = nullptr);
  ~NewRun();
  NewRun(const NewRun&) = delete;

  // The directory of its files until it begins.
  std::filesystem::path path() const;
  // The bytes on the disk that are freed when it begins.
  uint64_t ReplacedBytes() const;
  // Training begins: moves the parts to the run directory and removes those of a replaced run. If
  // the process is killed meanwhile, RecoverRun completes or restores one of the two.
  void Begun();

 private:
  std::filesystem::path run_;
  MadeParents parents_;
  std::unique_ptr<RunLock> lock_;
  bool made_ = false;  // the directory did not exist before
  bool begun_ = false;
};

// Throws a kRuntime Error if the `disk` of the run, with `freed` bytes more, has no room for a
// checkpoint of so many bytes, and warns if it has no room for `together` of them, the most that
// exist at a time. Does nothing if the size of the disk is not known.
void RequireRoom(const std::filesystem::path& run, const std::filesystem::space_info& disk,
                 uint64_t freed, uint64_t checkpoint_bytes, int64_t together);

// Draws RUN/loss.svg from RUN/metrics.jsonl.
void DrawLossFigure(const std::filesystem::path& run);

}  // namespace folio
