#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "folio/base/machine.h"
#include "folio/data/dataset.h"

namespace folio {

// Looks, while a run trains, at what may bite it later, and warns in time: memory and disk that run
// out, and files of tokens that somebody changes. Each is warned of when it begins, and not again
// before it was over.
class Watchdog {
 public:
  struct Reading {
    MachineMemory memory;
    std::filesystem::space_info disk;  // of the run
  };

  // A checkpoint of the run takes so many bytes while it is written. The files of `data` are in
  // `data_dir`, where a new run's own have moved since they were opened. `read` is the machine, but
  // for tests.
  Watchdog(std::filesystem::path run, uint64_t checkpoint_bytes, const Dataset& data,
           const std::filesystem::path& data_dir, std::function<Reading()> read = {});

  // Looks every half a minute. To be called after each step.
  void Step();
  void Look();
  // Only at the files of tokens: where a checkpoint is there.
  void LookAtData();
  // The last look, at the tokens themselves too, whatever their files' times say.
  void Finish(const Dataset& data);

 private:
  // The state that tells a file from the one that was there: size (0 for no file), number, and
  // seconds and nanoseconds of the last change.
  using FileState = std::array<int64_t, 4>;
  static FileState StateOf(const std::filesystem::path& path);

  std::filesystem::path run_;
  uint64_t checkpoint_bytes_;
  std::function<Reading()> read_;
  std::map<std::filesystem::path, FileState> files_;
  std::string fingerprint_;    // of the tokens that training began with
  bool data_changed_ = false;  // that was told
  double next_;                // SteadySeconds of the next look
  bool low_memory_ = false, low_disk_ = false;
};

// Fingerprints of the tokens, a line for each part.
std::string FingerprintOf(const Dataset& data);

// Keeps in RUN/data.fingerprint what the data of the run is, or, where that is there already, warns
// if it is not this data any more.
void CheckFingerprint(const std::filesystem::path& run, const Dataset& data);

// Reads the tokens of a run while it trains, in a thread of the lowest priority, and compares them
// with the hashes that dataset.json has of them.
class DataCheck {
 public:
  // Opens the data for itself. Throws as Dataset and std::thread do.
  explicit DataCheck(const std::string& dir);
  // Ends the thread, which may not be through.
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;

  bool done() const { return done_; }
  // Throws a kInput Error once the thread has found other tokens. Logs once that it is through.
  void Look();
  // Looks when the thread is through, or when `stop_requested` says so.
  void Wait(const std::function<bool()>& stop_requested);

 private:
  void Read();

  Dataset data_;
  std::atomic<bool> stop_ = false, done_ = false;
  bool told_ = false;
  std::exception_ptr error_ = {};  // of the thread, to be read when it is done
  std::thread thread_;
};

}  // namespace folio
