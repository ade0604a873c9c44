#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "folio/data/dataset.h"

namespace folio {

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
