#pragma once

#include <string_view>

namespace folio {

// Prints file, line, condition and message to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace folio

// Always on. For mistakes that only a programmer can make, whatever input the program gets: a
// broken REQUIRES of a declaration, an impossible state. Files, prompts, masks, ids, sizes and
// options come from users even where a programmer passes them on: mistakes in them throw
// folio::Error, and a process that uses the library continues. The message (anything convertible to
// std::string_view) is evaluated only on failure.
#define FOLIO_CHECK(condition, message)                                \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::folio::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
