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

// Warns, while a run trains, of memory and disk that are nearly full, and of files of tokens that
// were changed. Warns again of the same only after it was over.
class Watchdog {
 public:
  struct Reading {
    MachineMemory memory;
    std::filesystem::space_info disk;  // of the run
  };

  // A checkpoint of the run takes so many bytes while it is written. The files of `data` are in
  // `data_dir`, to which those of a new run were moved after they were opened. `read` reads the
  // machine, except in tests.
  Watchdog(std::filesystem::path run, uint64_t checkpoint_bytes, const Dataset& data,
           const std::filesystem::path& data_dir, std::function<Reading()> read = {});

  // Calls Look every half a minute. Must be called after each step.
  void Step();
  // Checks memory, disk and the files of tokens; the second only the files.
  void Look();
  void LookAtData();
  // Checks the files a last time, and the tokens themselves.
  void Finish(const Dataset& data);

 private:
  // The state by which a changed file is recognised: size (0 for no file), inode, and seconds and
  // nanoseconds of the last change.
  using FileState = std::array<int64_t, 4>;
  static FileState StateOf(const std::filesystem::path& path);

  std::filesystem::path run_;
  uint64_t checkpoint_bytes_;
  std::function<Reading()> read_;
  std::map<std::filesystem::path, FileState> files_;
  std::string fingerprint_;    // of the tokens that training began with
  bool data_changed_ = false;  // a warning was given
  double next_;                // SteadySeconds of the next look
  bool low_memory_ = false, low_disk_ = false;
};

// Fingerprints of the tokens, a line for each part.
std::string FingerprintOf(const Dataset& data);

// Writes the fingerprints of the data to RUN/data.fingerprint, or, if that exists, warns if they
// differ.
void CheckFingerprint(const std::filesystem::path& run, const Dataset& data);

// Reads the tokens of a run while it trains, in a thread of the lowest priority, and compares them
// with the hashes that dataset.json has of them.
class DataCheck {
 public:
  // Opens the data for itself. Throws as Dataset and std::thread do.
  explicit DataCheck(const std::string& dir);
  // Ends the thread, even if it has not finished.
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;

  bool done() const { return done_; }
  // Throws a kInput Error once the thread has found other tokens. Logs once that it has finished.
  void Look();
  // Calls Look when the thread has finished, or when `stop_requested` returns true.
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
