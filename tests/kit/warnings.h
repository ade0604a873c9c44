#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "folio/base/log.h"

namespace folio {

// Collects log messages, a line for each, instead of showing them.
class Warnings {
 public:
  Warnings() {
    SetLogSink([this](LogLevel, std::string_view message) {
      const std::lock_guard lock(mutex_);
      text_ += std::string(message) + "\n";
    });
  }
  ~Warnings() {
    SetLogSink([](LogLevel, std::string_view) {});
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  // Returns the messages since the last Take.
  std::string Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, "");
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace folio
