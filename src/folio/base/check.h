#pragma once

#include <string_view>

namespace folio {

// Prints file, line, condition and message to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace folio

// Always on. For what only a programmer can get wrong; the world's mistakes throw folio::Error.
// The message (anything convertible to std::string_view) is evaluated only on failure.
#define FOLIO_CHECK(condition, message)                                \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::folio::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
