#include "folio/run/watchdog.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <system_error>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/run/run_directory.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr double kInterval = 30;  // seconds

// Warns when a condition becomes bad.
void Tell(bool bad, bool& told, const std::string& warning) {
  if (bad && !told) LogWarning(warning);
  told = bad;
}

}  // namespace

Watchdog::Watchdog(fs::path run, uint64_t checkpoint_bytes, const Dataset& data,
                   const fs::path& data_dir, std::function<Reading()> read)
    : run_(std::move(run)),
      checkpoint_bytes_(checkpoint_bytes),
      read_(std::move(read)),
      fingerprint_(FingerprintOf(data)),
      next_(SteadySeconds() + kInterval) {
  if (!read_) {
    read_ = [this] {
      std::error_code unknown;
      return Reading{ThisMachinesMemory(), fs::space(run_, unknown)};
    };
  }
  for (const TokenFile* tokens : {&data.train(), &data.val()}) {
    for (size_t shard = 0; shard < tokens->shards(); ++shard) {
      const fs::path path = data_dir / fs::path(tokens->shard_path(shard)).filename();
      files_[path] = StateOf(path);
    }
  }
}

Watchdog::FileState Watchdog::StateOf(const fs::path& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return {};
#ifdef __APPLE__
  const timespec changed = found.st_mtimespec;
#else
  const timespec changed = found.st_mtim;
#endif
  return {found.st_size, static_cast<int64_t>(found.st_ino), changed.tv_sec, changed.tv_nsec};
}

void Watchdog::Step() {
  if (SteadySeconds() < next_) return;
  Look();
  next_ = SteadySeconds() + kInterval;
}

void Watchdog::Look() {
  constexpr uint64_t kFew = 32;  // one part of so many
  const Reading now = read_();
  Tell(now.memory.available > 0 && now.memory.available < now.memory.total / kFew, low_memory_,
       fmt::format("memory is nearly full: {} of {} are free, and the system may kill this "
                   "process; close other programs",
                   HumanBytes(now.memory.available), HumanBytes(now.memory.total)));
  // An unknown number is the largest, or all are 0.
  const bool known = now.disk.capacity > 0 && now.disk.available + 1 != 0;
  Tell(
      known && now.disk.available < checkpoint_bytes_, low_disk_,
      fmt::format(
          "the disk of '{}' is nearly full: {} free, the next checkpoint takes {}; free some space",
          run_.string(), HumanBytes(now.disk.available), HumanBytes(checkpoint_bytes_)));
  LookAtData();
}

void Watchdog::LookAtData() {
  for (auto& [path, state] : files_) {
    const FileState now = StateOf(path);
    if (std::exchange(state, now) == now) continue;
    data_changed_ = true;
    LogWarning(
        fmt::format("{} was {} during training: the results match neither the old data nor the new",
                    path.string(), now[0] == 0 ? "removed" : "changed"));
  }
}

void Watchdog::Finish(const Dataset& data) {
  LookAtData();
  if (data_changed_ || FingerprintOf(data) == fingerprint_) return;
  LogWarning(
      fmt::format("the tokens in {} were changed during training: the results match neither the "
                  "old data nor the new",
                  files_.begin()->first.parent_path().string()));
}

std::string FingerprintOf(const Dataset& data) {
  return data.train().Fingerprint() + "  train\n" + data.val().Fingerprint() + "  val\n";
}

void CheckFingerprint(const fs::path& run, const Dataset& data) {
  constexpr uint64_t kMost = 1 << 12;
  const fs::path path = run / kRunFingerprintFile;
  const std::string now = FingerprintOf(data);
  if (!fs::exists(path)) return WriteFileAtomically(path, now);
  if (ReadFile(path, kMost) == now) return;
  LogWarning(fmt::format(
      "the data has changed since the run started: {} does not match the fingerprints in {}; "
      "training continues with the new data, and its results cannot be reproduced",
      data.dir(), path.string()));
}

DataCheck::DataCheck(const std::string& dir) : data_(dir), thread_([this] { Read(); }) {}

DataCheck::~DataCheck() {
  stop_ = true;
  thread_.join();
}

void DataCheck::Read() {
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, 0, kLowest);  // on Linux of this thread alone
  try {
    data_.Verify([this] { return stop_.load(); });
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
}

void DataCheck::Look() {
  if (!done_ || told_) return;
  told_ = true;
  if (!error_) {
    Log(LogLevel::kInfo, fmt::format("{}: all tokens match their hashes", data_.dir()));
    return;
  }
  try {
    std::rethrow_exception(error_);
  } catch (const Error& error) {
    throw Error(
        error.kind(), error.what(), error.cause(),
        error.help() +
            "; then start the run again with --overwrite: it has trained on damaged tokens");
  }
}

void DataCheck::Wait(const std::function<bool()>& stop_requested) {
  while (!done_ && !stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Look();
}

}  // namespace folio
