#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace folio {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Receives each message, without a newline at its end. Called under a lock: one at a time.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Messages below `level` are dropped. The first sink writes lines to
// stderr, with controls as escapes (utf8.h).
void SetLogLevel(LogLevel level);
void SetLogSink(LogSink sink);

void Log(LogLevel level, std::string_view message);
inline void LogWarning(std::string_view message) {
  Log(LogLevel::kWarning, message);
}

// Called with the message of a check that failed (check.h) before the process aborts.
using FatalHook = std::function<void(const std::string& message)>;
void SetFatalHook(FatalHook hook);

}  // namespace folio
