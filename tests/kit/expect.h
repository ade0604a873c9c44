#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "folio/base/error.h"

namespace folio {

// Returns true if the text contains every one of the parts.
template <class... Parts>
testing::AssertionResult Contains(std::string_view text, const Parts&... parts) {
  for (const std::string_view part : {std::string_view(parts)...}) {
    if (text.find(part) == std::string_view::npos) {
      return testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
    }
  }
  return testing::AssertionSuccess();
}

// The number of occurrences of the part in the text, overlapping ones included.
inline size_t Count(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

// The text with its first `from`, which must exist, replaced.
inline std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

// The Error that f throws; fails the test if it throws none or one of another kind.
template <class F>
Error Refused(F&& f, ErrorKind kind = ErrorKind::kInput) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), static_cast<int>(kind)) << error.what() << ": " << error.cause();
    return error;
  }
  ADD_FAILURE() << "no folio::Error";
  return {kind, ""};
}

// The same as text: "what | cause", and "what | cause | help".
template <class F>
std::string ErrorOf(F&& f, ErrorKind kind = ErrorKind::kInput) {
  const Error error = Refused(f, kind);
  return std::string(error.what()) + " | " + error.cause();
}
template <class F>
std::string ErrorAndHelp(F&& f, ErrorKind kind = ErrorKind::kInput) {
  const Error error = Refused(f, kind);
  return std::string(error.what()) + " | " + error.cause() + " | " + error.help();
}

// The text with one byte changed: once for each byte and each of `flips`, the bits that change.
// `read` of it may throw a kInput Error, and nothing else.
template <class F>
void ExpectFlipsReadOrRefused(const std::string& whole, const F& read,
                              std::initializer_list<int> flips = {1, 0x80, 0xFF}) {
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : flips) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      try {
        read(bytes);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << at << ": " << error.what();
      }
    }
  }
}

}  // namespace folio
