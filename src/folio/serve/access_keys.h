#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// A key that opens the service, of which its hash is all that is kept.
struct AccessKey {
  std::string name;    // of letters, digits and "._-", for logs and metrics
  std::string sha256;  // 64 hexadecimal digits, small ones
};
using AccessKeys = std::vector<AccessKey>;

// A key a line: "KEY" or "NAME:KEY", where KEY is the key itself or "sha256:" and the hexadecimal
// SHA-256 of it. One without a name is called "key-N" by its line. Keys of one name are of one
// client. Empty lines and lines that begin with '#' are left out. Throws a kInput Error, naming
// `where` and the line, for a line that is none, and where there is no key; a key that is written
// there is not shown.
AccessKeys ParseKeys(std::string_view text, const std::string& where);
// Reads the keys of a file, warning where others than its owner may read it. Throws as ReadFile and
// ParseKeys.
AccessKeys ReadKeys(const std::string& file);

// The name of the key that is given; nothing if it is none of them. Takes as long whichever it is,
// and however much of one it has.
std::optional<std::string> NameOfKey(const AccessKeys& keys, std::string_view given);

}  // namespace folio
