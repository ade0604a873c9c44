#include "folio/run/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/io/model_dir.h"
#include "folio/plot/curves.h"
#include "folio/train/checkpoints.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::FileDescriptor;

constexpr char kLockFile[] = ".lock";
constexpr char kLossFigureFile[] = "loss.svg";

struct Owner {
  pid_t process = 0;
  std::string host;
};

// Reads "PID HOST\n"; nothing if it is not written yet.
std::optional<Owner> ReadOwner(int fd) {
  std::array<char, 320> text = {};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  if (size <= 0 || text[static_cast<size_t>(size) - 1] != '\n') return {};
  Owner owner;
  const char* end = text.data() + size - 1;
  const auto [rest, error] = std::from_chars(text.data(), end, owner.process);
  if (error != std::errc() || rest == end || *rest != ' ') return {};
  owner.host.assign(rest + 1, end);
  return owner;
}

// Returns true if the process exists, or is of another machine.
bool MayLive(const Owner& owner) {
  return owner.host != HostName() || kill(owner.process, 0) == 0 || errno == EPERM;
}

[[noreturn]] void ThrowTaken(const fs::path& run, int fd) {
  // The file may still name an owner that was killed, until the next one has written its own name.
  std::optional<Owner> owner;
  for (int i = 0; i < 20; ++i) {
    owner = ReadOwner(fd);
    if (owner && MayLive(*owner)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::string who = "another process", stop = "stop it";
  if (owner) {
    const bool here = owner->host == HostName();
    who = fmt::format("process {}{}", owner->process, here ? "" : " on " + owner->host);
    stop = fmt::format("stop it (kill {}{})", owner->process, here ? "" : ", there");
  }
  throw UsageError(fmt::format("the run '{}' is in use", run.string()),
                   fmt::format("{} is training in it", who),
                   fmt::format("wait until it ends, {}, or choose another --out", stop));
}

bool HasName(int fd, const internal::HeldName& name) {
  struct stat held = {}, named = {};
  return fstat(fd, &held) == 0 && name.Stat(named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

constexpr std::array kParts = {kRunConfigFile,
                               kRunDataDir,
                               kRunSourceFile,
                               kRunFingerprintFile,
                               kRunTokenizerDir,
                               kMetricsFile,
                               kSamplesFile,
                               kLastDir,
                               kLossFigureFile,
                               kBestDir,
                               kStepsDir,
                               kTensorBoardDir,
                               kBaseDir,
                               "metrics.damaged.jsonl",
                               "samples.damaged.jsonl"};

constexpr char kBegunDir[] = ".begun";

[[noreturn]] void ThrowCannotMove(const fs::path& from, const fs::path& to,
                                  const std::error_code& error) {
  throw RuntimeError(fmt::format("cannot move the run in '{}' to '{}'", from.string(), to.string()),
                     error.message(), "correct this, or choose another --out");
}

// Moves all parts of a run that can be moved to another directory. Throws if any could not.
void MoveParts(const fs::path& from, const fs::path& to) {
  std::error_code last;
  for (const char* part : kParts) {
    if (!internal::IsThere(from / part)) continue;
    if (const std::error_code error = internal::Rename(from / part, to / part)) last = error;
  }
  if (last) ThrowCannotMove(from, to, last);
}

// The last steps when a run begins, or is recovered.
void TakePlace(const fs::path& run) {
  MoveParts(run / kBegunDir, run);
  internal::SyncDirectory(run);
  internal::RemoveTree(run / kBegunDir);
  internal::RemoveTree(run / kOldRunDir);
}

// Returns a symbolic link at or below `name` in a run; empty if there is none.
fs::path FindLink(const fs::path& run, const fs::path& name) {
  std::error_code ignored;
  if (fs::is_symlink(run / name, ignored)) return run / name;
  for (fs::recursive_directory_iterator it(run / name, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (it->is_symlink(ignored)) return it->path();
  }
  return {};
}

}  // namespace

RunLock::RunLock(const fs::path& run, int (*lock)(int fd, int operation))
    : path_(run / kLockFile), inside_(run) {
  for (;;) {
    const internal::HeldName name(path_);
    // For writing: NFS gives no other lock that excludes.
    FileDescriptor fd(name.Open(O_RDWR | O_CREAT | O_NOFOLLOW));
    if (fd.get() < 0) internal::ThrowCannotWrite(path_, errno);
    if (lock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) ThrowTaken(run, fd.get());
      const bool no_locks = errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS;
      if (!no_locks) internal::ThrowCannotWrite(path_, errno);
      LogWarning(fmt::format(
          "'{}' is on a file system without locks ({}): make sure that only one run writes there",
          run.string(), internal::ErrnoText(errno)));
    }
    // An owner that ended after the opening has removed the file.
    if (!HasName(fd.get(), name)) continue;
    const std::string owner = fmt::format("{} {}\n", getpid(), HostName());
    // On a full disk the lock holds without it.
    if (ftruncate(fd.get(), 0) == 0) (void)!pwrite(fd.get(), owner.data(), owner.size(), 0);
    fd_ = fd.Release();
    return;
  }
}

RunLock::~RunLock() {
  const internal::HeldName held(path_);
  held.Remove(held.name());
  close(fd_);
}

bool IsLocked(const fs::path& run) {
  const FileDescriptor fd = internal::OpenIfRegular(run / kLockFile, O_NOFOLLOW);
  if (fd.get() < 0) return false;
  const std::optional<Owner> owner = ReadOwner(fd.get());
  return owner && MayLive(*owner);
}

bool HoldsRun(const fs::path& run) {
  return std::ranges::any_of(kParts,
                             [&](const char* part) { return internal::IsThere(run / part); });
}

void RequireNoLinks(const fs::path& run) {
  std::vector<fs::path> names(kParts.begin(), kParts.end());
  names.insert(names.end(), {kLockFile, kMomentsFile, kNewRunDir, kOldRunDir, kBegunDir});
  for (const fs::path& name : names) {
    const fs::path link = FindLink(run, name);
    if (link.empty()) continue;
    std::error_code ignored;
    throw InputError(fmt::format("'{}' is a symbolic link", link.string()),
                     fmt::format("it points to {}, and links inside a run are not followed: its "
                                 "target would be replaced",
                                 fs::read_symlink(link, ignored).string()),
                     "replace it by its target; the run directory itself may be a link, and disks "
                     "may be mounted at the run, its data and its steps");
  }
}

void RecoverRun(const fs::path& run) {
  const GuardedDirectory inside(run);
  const fs::path fresh = run / kNewRunDir, old = run / kOldRunDir;
  if (internal::IsThere(run / kBegunDir)) TakePlace(run);
  if (internal::IsThere(fresh)) {
    MoveParts(old, run);
    internal::RemoveTree(old);
    internal::RemoveTree(fresh);
  }
  internal::RemoveTree(old);
  internal::RemoveTree(run / kMomentsFile);
  for (const char* part : kParts) {
    internal::CleanLeftovers(internal::HeldName(run / part));
  }
  for (const std::string& name : internal::NamesIn(run / kStepsDir)) {
    if (name.starts_with('.')) internal::RemoveTree(run / kStepsDir / name);
  }
}

NewRun::NewRun(fs::path run, bool overwrite, std::unique_ptr<RunLock> lock)
    : run_(std::move(run)), parents_(run_), lock_(std::move(lock)) {
  if (fs::exists(run_) && !fs::is_directory(run_)) {
    throw UsageError(fmt::format("'{}' is not a directory", run_.string()), "",
                     "give a directory with --out");
  }
  const bool made = !fs::exists(run_);
  CreateDirectories(run_);
  if (lock_ == nullptr) lock_ = std::make_unique<RunLock>(run_);
  RecoverRun(run_);
  if (HoldsRun(run_) && !overwrite) {
    const bool resumable = !FindCheckpoints(run_).empty();
    throw UsageError(fmt::format("'{}' already contains a run", run_.string()),
                     resumable ? "" : "it ended before its first checkpoint",
                     resumable ? fmt::format("continue it with folio train --resume --out {}, "
                                             "choose another --out, or replace it with --overwrite",
                                             run_.string())
                               : "replace it with --overwrite, or choose another --out");
  }
  made_ = made;
  CreateDirectories(path());
}

fs::path NewRun::path() const {
  return run_ / kNewRunDir;
}

uint64_t NewRun::ReplacedBytes() const {
  uint64_t bytes = 0;
  for (const char* part : kParts) {
    if (fs::is_symlink(run_ / part)) continue;
    if (fs::is_regular_file(run_ / part)) bytes += fs::file_size(run_ / part);
    if (!fs::is_directory(run_ / part)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run_ / part)) {
      if (entry.is_regular_file() && !entry.is_symlink())
        bytes += entry.file_size() / entry.hard_link_count();
    }
  }
  return bytes;
}

void NewRun::Begun() {
  const GuardedDirectory inside(run_);
  const fs::path old = run_ / kOldRunDir;
  if (HoldsRun(run_)) {
    CreateDirectories(old);
    MoveParts(run_, old);
  }
  internal::SyncDirectory(path());
  internal::SyncDirectory(run_);
  // Until this step the old run is valid, after it the new one.
  if (const std::error_code error = internal::Rename(path(), run_ / kBegunDir)) {
    ThrowCannotMove(path(), run_, error);
  }
  begun_ = true;
  TakePlace(run_);
}

NewRun::~NewRun() {
  if (begun_) return;
  try {
    RecoverRun(run_);
  } catch (const std::exception&) {  // the next start tries again
  }
  lock_.reset();
  std::error_code ignored;
  if (made_) fs::remove(run_, ignored);
}

void RequireRoom(const fs::path& run, const fs::space_info& disk, uint64_t freed,
                 uint64_t checkpoint_bytes, int64_t together) {
  // An unknown number is the largest.
  if (disk.capacity == 0 || disk.available + 1 == 0) return;
  const uint64_t free_bytes = disk.available + freed;
  const std::string what =
      fmt::format("the disk of '{}' has {} free, a checkpoint takes {}", run.string(),
                  HumanBytes(free_bytes), HumanBytes(checkpoint_bytes));
  if (free_bytes < checkpoint_bytes) {
    throw RuntimeError("not enough disk space for a checkpoint", what,
                       "free some space, or choose an --out on another disk");
  }
  if (free_bytes / static_cast<uint64_t>(together) < checkpoint_bytes) {
    LogWarning(fmt::format("{}; while one is written, there are {}", what, together));
  }
}

void DrawLossFigure(const fs::path& run) {
  const GuardedDirectory inside(run);
  Series loss{.label = "training batch", .faint = true, .colour = 0};
  Series smooth{.label = "training, smoothed", .colour = 0};
  Series train{.label = "training set", .colour = 1}, val{.label = "held out", .colour = 2};
  constexpr double kWeight = 0.9;
  for (const StepMetrics& m : ReadRunLog(run)) {
    const double step = static_cast<double>(m.step);
    const auto add = [&](Series& series, double value) {
      series.x.push_back(step);
      series.y.push_back(value);
    };
    if (m.loss) add(loss, *m.loss);
    if (m.train_eval_loss) add(train, *m.train_eval_loss);
    if (m.val_loss) add(val, *m.val_loss);
  }
  smooth.x = loss.x;
  smooth.y = Smooth(loss.y, kWeight);
  const std::array series = {loss, smooth, train, val};
  WriteFileAtomically(run / kLossFigureFile,
                      CurvesSvg(series, {.title = "Loss of " + run.filename().string(),
                                         .x_label = "step",
                                         .y_label = "nats per token"}));
}

}  // namespace folio
