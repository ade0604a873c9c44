// What Emscripten's libraries lack of what the rooms call; included before everything
// (CMakeLists.txt).
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>

namespace std {

// Numbers with a fraction, which libc++ reads from version 20 on.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  if (first == last || (*first != '-' && *first != '.' && (*first < '0' || *first > '9'))) {
    return {first, errc::invalid_argument};
  }
  const string text(first, last);
  char* end = nullptr;
  errno = 0;
  const double number = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  const char* const stop = first + (end - text.c_str());
  if (errno == ERANGE) return {stop, errc::result_out_of_range};
  value = number;
  return {stop, errc()};
}

}  // namespace std

// For vectors xxHash wants Arm's intrinsics, which SIMDe would make of WebAssembly's: it goes
// without.
#pragma push_macro("__wasm_simd128__")
#undef __wasm_simd128__
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma pop_macro("__wasm_simd128__")

// Of Linux alone.
inline constexpr unsigned RENAME_EXCHANGE = 2;
inline int renameat2(int, const char*, int, const char*, unsigned) {
  errno = ENOSYS;
  return -1;
}
