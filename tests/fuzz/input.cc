#include "input.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "folio/io/test_zip_bytes.h"

namespace folio {

std::string ChangedBytes(std::string file, FuzzInput& input) {
  for (int changes = 0; changes < 6 && !input.empty() && !file.empty(); ++changes) {
    const size_t at = (input.Word() | size_t{input.Byte()} << 16) % file.size();
    const uint8_t kind = input.Byte();
    if (kind % 8 == 0) {
      file.resize(at);
    } else {
      const std::string other = kind % 8 < 3   ? Little(~uint64_t{0} >> (kind / 8), 8)
                                : kind % 8 < 5 ? Little(~uint64_t{0} >> (kind / 8), 4)
                                               : std::string(input.Take(kind / 32));
      file.replace(at, std::min(other.size(), file.size() - at), other);
    }
  }
  return file;
}

std::string ChangedText(std::string text, std::span<const std::string_view> fragments,
                        FuzzInput& input) {
  for (int changes = 0; changes < 8 && !input.empty(); ++changes) {
    const size_t place = input.Word() | size_t{input.Byte()} << 16;
    const size_t at = place % (text.size() + 1);
    const uint8_t kind = input.Byte();
    const size_t gone =
        std::min<size_t>(kind % 16 == 15 ? text.size() : kind % 16, text.size() - at);
    const size_t more = kind / 16;
    if (more == 15) {
      const std::string again = text.substr(place / 2 % (text.size() + 1), 20);
      text.replace(at, gone, again);
    } else if (more >= 8) {
      text.replace(at, gone, fragments[input.Byte() % fragments.size()]);
    } else {
      text.replace(at, gone, input.Take(more));
    }
  }
  return text;
}

std::span<const std::string_view> JsonFragments() {
  static constexpr auto kFragments =
      std::to_array<std::string_view>({"18446744073709551616",
                                       "9223372036854775807",
                                       "-1",
                                       "0",
                                       "1e308",
                                       "1e-400",
                                       "0.5",
                                       "null",
                                       "true",
                                       "false",
                                       "NaN",
                                       "Infinity",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\"",
                                       "\\",
                                       "\n",
                                       " ",
                                       "\xff",
                                       "\"\\ud800\"",
                                       "\"\\u0000\"",
                                       "\"../x\"",
                                       "\"/etc/passwd\"",
                                       "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                                       "\"\":0,",
                                       "{\"a\":[{}]}",
                                       "-9223372036854775808",
                                       "4294967296",
                                       "2147483648"});
  return kFragments;
}

testing::AssertionResult ReadOrRefused(const std::function<void()>& read,
                                       std::initializer_list<ErrorKind> kinds) {
  try {
    read();
  } catch (const Error& error) {
    if (std::ranges::count(kinds, error.kind()) > 0) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "an Error of another kind: " << error.what();
  }
  return testing::AssertionSuccess();
}

}  // namespace folio
