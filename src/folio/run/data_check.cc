#include "folio/run/data_check.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>

#include "folio/base/error.h"
#include "folio/base/log.h"

namespace folio {

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
    Log(LogLevel::kInfo, fmt::format("{}: the tokens are those that were prepared", data_.dir()));
    return;
  }
  try {
    std::rethrow_exception(error_);
  } catch (const Error& error) {
    throw Error(error.kind(), error.what(), error.cause(),
                error.help() +
                    "; then begin the run again with --overwrite: what it has learnt is "
                    "of other tokens");
  }
}

void DataCheck::Wait(const std::function<bool()>& stop_requested) {
  while (!done_ && !stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Look();
}

}  // namespace folio
