#include "folio/train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/model/checkpoint.h"
#include "folio/model/lora.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The name of a directory that is about to be removed: no checkpoint any more.
constexpr char kRemovedDir[] = ".removed";

// Gives the files other names, but for `without`; copies them where the file system has no links.
void LinkFiles(const fs::path& from, const fs::path& to, const std::string& without = {}) {
  std::error_code unread;
  const std::vector<std::string> names = internal::NamesIn(from, &unread);
  if (unread) internal::ThrowCannotWrite(from, unread.value());
  for (const std::string& name : names) {
    if (name == without) continue;
    const fs::path source = from / name, target = to / name;
    if (internal::IsDirectoryItself(source)) {
      if (const auto error = internal::MakeDirectory(target))
        internal::ThrowCannotWrite(target, error.value());
      LinkFiles(source, target, without);
      continue;
    }
    if (!internal::Link(source, target)) continue;
    AtomicFile copy(target);
    copy.Write(MappedFile(source).bytes());
    copy.Commit();
  }
}

// The steps whose checkpoints are in RUN/steps, the newest first.
std::vector<int64_t> KeptSteps(const fs::path& run) {
  constexpr size_t kMostDigits = 16;
  std::vector<int64_t> steps;
  for (const std::string& name : internal::NamesIn(run / kStepsDir)) {
    if (name.size() > kMostDigits || name.find_first_not_of("0123456789") != name.npos) continue;
    steps.push_back(std::stoll(name));
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

// Throws a kInput Error unless the model in `dir`, and what else has a checksum, is as it was
// saved.
void RequireSound(const fs::path& dir) {
  VerifyChecksums(dir);
  OpenModelDir(dir);
}

fs::path PlaceOf(const fs::path& run, int64_t step) {
  return run / kStepsDir / std::to_string(step);
}

}  // namespace

Checkpoints::Checkpoints(fs::path run, Options options)
    : run_(std::move(run)), options_(std::move(options)), inside_(run_) {}

void Checkpoints::WriteBase(const GptWeights& weights) const {
  AtomicDirectory dir(run_ / kBaseDir);
  SaveModel(dir.path(), weights, {.checksums = true});
  if (options_.tokenizer != nullptr) options_.tokenizer->Save(dir.path().string());
  WriteChecksums(dir.path());
  dir.Commit();
}

void Checkpoints::SaveModelInto(const fs::path& dir, const CheckpointParts& parts) const {
  SaveModel(dir, parts.merged != nullptr ? *parts.merged : parts.weights, {.checksums = true});
  if (parts.merged != nullptr) {
    CreateDirectories(dir / kAdapterDir);
    SaveAdapter(dir / kAdapterDir, parts.weights, options_.base);
  }
  if (options_.tokenizer != nullptr) options_.tokenizer->Save(dir.string());
}

void Checkpoints::Write(const CheckpointParts& parts, bool best, bool last,
                        int64_t previous) const {
  try {
    WriteBoth(parts, best, last, previous);
  } catch (const fs::filesystem_error& error) {
    internal::ThrowCannotWrite(error.path1(), error.code().value());
  } catch (const Error& error) {
    // Files that are linked, or read for their checksums, were there a moment ago: the disk is
    // gone.
    if (error.kind() != ErrorKind::kInput) throw;
    throw RuntimeError(error.what(), error.cause(), error.help());
  }
}

void Checkpoints::WriteBoth(const CheckpointParts& parts, bool best, bool last,
                            int64_t previous) const {
  // best/ first: the state in last/ says which step it is of.
  if (best) {
    AtomicDirectory dir(run_ / kBestDir);
    SaveModelInto(dir.path(), parts);
    WriteChecksums(dir.path());
    dir.Commit();
  }
  if (!last) return;
  if (previous >= 0 && previous != parts.state.step) Keep(previous);
  AtomicDirectory dir(run_ / kLastDir);
  if (best) {
    LinkFiles(run_ / kBestDir, dir.path());
  } else {
    SaveModelInto(dir.path(), parts);
  }
  SaveTrainState(dir.path(), parts.state, parts.weights.table(), parts.optimizer, parts.written);
  WriteChecksums(dir.path(), best ? run_ / kBestDir : fs::path());
  dir.Commit();
  Prune(parts.state.step);
}

bool Checkpoints::LostBest() const {
  return internal::IsThere(run_ / kMetricsFile) && !internal::IsThere(run_ / kBestDir);
}

bool Checkpoints::RepairBest(int64_t step) const {
  const fs::path best = run_ / kBestDir;
  std::string found;
  try {
    RequireSound(best);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    found = error.what();
  }
  for (const fs::path& checkpoint : FindCheckpoints(run_)) {
    try {
      if (SavedStep(checkpoint) != step) continue;
      RequireSound(checkpoint);
      AtomicDirectory dir(best);
      LinkFiles(checkpoint, dir.path(), kTrainStateDir);
      WriteChecksums(dir.path(), checkpoint);
      dir.Commit();
      LogWarning(
          fmt::format("{}; {} is made again of {}", found, best.string(), checkpoint.string()));
      return true;
    } catch (const Error& error) {
      found += fmt::format("; {}", error.what());
    } catch (const fs::filesystem_error& error) {
      found += fmt::format("; {}", error.what());
    }
  }
  LogWarning(fmt::format("{}; the next evaluation writes {} again", found, best.string()));
  return false;
}

bool Checkpoints::OfRoundStep(int64_t step) const {
  return options_.keep_every > 0 && step % options_.keep_every == 0;
}

// Gives RUN/last a second name, before another takes its place.
void Checkpoints::Keep(int64_t step) const {
  const fs::path place = PlaceOf(run_, step);
  if ((options_.keep_last <= 1 && !OfRoundStep(step)) || internal::IsThere(place)) return;
  const fs::path last = run_ / kLastDir, steps = run_ / kStepsDir;
  if (!internal::IsDirectoryItself(last)) {
    LogWarning(
        fmt::format("{} was removed: the checkpoint of step {} is not kept", last.string(), step));
    return;
  }
  // RUN/steps alone is made, and not the run: somebody may have moved it.
  std::error_code error = internal::MakeDirectory(steps);
  if (error.value() == ELOOP) {
    LogWarning(fmt::format("{} is a symbolic link now: it is removed", steps.string()));
    internal::RemoveTree(steps);
    error = internal::MakeDirectory(steps);
  }
  if (error) internal::ThrowCannotWrite(steps, error.value());
  AtomicDirectory dir(place);
  LinkFiles(last, dir.path());
  dir.Commit();
}

// A directory that cannot be removed now is removed after the next checkpoint.
void Checkpoints::Prune(int64_t newest) const {
  const fs::path removed = run_ / kStepsDir / kRemovedDir;
  internal::RemoveTree(removed);
  int64_t kept = 1;  // RUN/last
  for (const int64_t step : KeptSteps(run_)) {
    // Checkpoints from `newest` on are of a way that the run has left.
    const bool earlier = step < newest;
    if (earlier && kept < options_.keep_last) {
      kept += 1;
      continue;
    }
    if (earlier && OfRoundStep(step)) continue;
    internal::Rename(PlaceOf(run_, step), removed);
    internal::RemoveTree(removed);
  }
}

std::vector<fs::path> FindCheckpoints(const fs::path& run) {
  std::vector<fs::path> found;
  if (internal::IsThere(run / kLastDir)) found.push_back(run / kLastDir);
  for (const int64_t step : KeptSteps(run)) found.push_back(PlaceOf(run, step));
  return found;
}

fs::path SoundCheckpoint(const fs::path& run, int64_t end) {
  std::vector<Error> errors;
  for (const fs::path& checkpoint : FindCheckpoints(run)) {
    try {
      const int64_t step = SavedStep(checkpoint);
      if (step >= end) continue;
      RequireSound(checkpoint);
      for (const Error& error : errors) {
        LogWarning(fmt::format("{}: {}; going on from {} (step {})", error.what(), error.cause(),
                               checkpoint.string(), step));
      }
      return checkpoint;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      errors.push_back(error);
    }
  }
  if (!errors.empty()) throw Error(errors.front());
  throw InputError(fmt::format("'{}' holds no run to resume", run.string()),
                   fmt::format("there is no {}", (run / kLastDir).string()),
                   "leave out --resume to begin one");
}

}  // namespace folio
