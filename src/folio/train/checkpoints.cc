#include "folio/train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/model/adapter.h"
#include "folio/model/checkpoint.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// What is about to be removed: no checkpoint any more.
constexpr char kRemovedDir[] = ".removed";

// The same files under other names, but for `without`; copies where the file system has no links.
void LinkFiles(const fs::path& from, const fs::path& to, const fs::path& without = {}) {
  for (fs::recursive_directory_iterator it(from), end; it != end; ++it) {
    const fs::directory_entry& entry = *it;
    if (entry.path().filename() == without) {
      it.disable_recursion_pending();
      continue;
    }
    const fs::path target = to / entry.path().lexically_relative(from);
    if (entry.is_directory()) {
      fs::create_directory(target);  // and not what is around it: somebody may have moved the run
      continue;
    }
    std::error_code error;
    fs::create_hard_link(entry.path(), target, error);
    if (!error) continue;
    AtomicFile copy(target);
    copy.Write(MappedFile(entry.path()).bytes());
    copy.Commit();
  }
}

// The steps whose checkpoints are in RUN/steps, the newest first.
std::vector<int64_t> KeptSteps(const fs::path& run) {
  constexpr size_t kMostDigits = 16;
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (fs::directory_iterator it(run / kStepsDir, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
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
    : run_(std::move(run)), options_(std::move(options)) {}

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
    fs::create_directory(dir / kAdapterDir);
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
    // What is linked, or read for its checksum, was there a moment ago: the disk is gone.
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
  SaveTrainState(dir.path(), parts.state, parts.weights.table(), parts.m, parts.v, parts.moments);
  WriteChecksums(dir.path(), best ? run_ / kBestDir : fs::path());
  dir.Commit();
  Prune(parts.state.step);
}

bool Checkpoints::MendBest(int64_t step) const {
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
  if ((options_.keep_last <= 1 && !OfRoundStep(step)) || fs::exists(place)) return;
  fs::create_directory(run_ / kStepsDir);  // and not the run: somebody may have moved it
  AtomicDirectory dir(place);
  LinkFiles(run_ / kLastDir, dir.path());
  dir.Commit();
}

// What cannot be removed now is removed after the next checkpoint.
void Checkpoints::Prune(int64_t newest) const {
  std::error_code ignored;
  const fs::path removed = run_ / kStepsDir / kRemovedDir;
  fs::remove_all(removed, ignored);
  int64_t kept = 1;  // RUN/last
  for (const int64_t step : KeptSteps(run_)) {
    // Those from `newest` on are of a way that the run has left.
    const bool earlier = step < newest;
    if (earlier && kept < options_.keep_last) {
      kept += 1;
      continue;
    }
    if (earlier && OfRoundStep(step)) continue;
    fs::rename(PlaceOf(run_, step), removed, ignored);
    fs::remove_all(removed, ignored);
  }
}

std::vector<fs::path> FindCheckpoints(const fs::path& run) {
  std::vector<fs::path> found;
  if (fs::exists(run / kLastDir)) found.push_back(run / kLastDir);
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
