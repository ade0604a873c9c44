#include "folio/base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/fork.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

void WriteToStderr(LogLevel, std::string_view message) {
  const std::string line = Visible(message, {.lines = false}) + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

struct Logger {
  std::atomic<LogLevel> level = LogLevel::kInfo;
  ForkMutex mutex;
  LogSink sink = WriteToStderr;  // guarded by mutex, as the next
  FatalHook fatal = {};
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

void SetFatalHook(FatalHook hook) {
  Logger& logger = TheLogger();
  const std::lock_guard lock(logger.mutex);
  logger.fatal = std::move(hook);
}

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  const std::string text = std::string(file) + ':' + std::to_string(line) +
                           ": check failed: " + condition + ": " +
                           Visible(message, {.lines = false});
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
  Logger& logger = TheLogger();
  FatalHook fatal;
  // A check that fails while another thread logs does not wait for the lock.
  if (const std::unique_lock lock(logger.mutex, std::try_to_lock); lock) fatal = logger.fatal;
  if (fatal) fatal(text);
  std::abort();
}

}  // namespace folio
