#include "folio/base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

void WriteToStderr(LogLevel, std::string_view message) {
  const std::string line = Visible(message, {.lines = false}) + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

struct Logger {
  std::atomic<LogLevel> level = LogLevel::kInfo;
  std::mutex mutex;
  LogSink sink = WriteToStderr;  // guarded by mutex
};

// Never destroyed, so that logging works until the process is gone.
Logger& TheLogger() {
  static Logger& logger = *new Logger;
  return logger;
}

}  // namespace

void SetLogLevel(LogLevel level) {
  TheLogger().level = level;
}

void SetLogSink(LogSink sink) {
  Logger& logger = TheLogger();
  const std::lock_guard lock(logger.mutex);
  logger.sink = std::move(sink);
}

void Log(LogLevel level, std::string_view message) {
  Logger& logger = TheLogger();
  if (level < logger.level) return;
  const std::lock_guard lock(logger.mutex);
  logger.sink(level, message);
}

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition,
               Visible(message, {.lines = false}).c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace folio
