#include "folio/serve/access_keys.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"

namespace folio {
namespace {

constexpr std::string_view kHash = "sha256";

bool IsSmallHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsName(std::string_view text) {
  constexpr size_t kLongest = 64;
  constexpr std::string_view kOfNames =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= kLongest &&
         text.find_first_not_of(kOfNames) == std::string_view::npos;
}

AccessKey ParseKey(std::string_view line, size_t number, const std::string& where) {
  const auto fail = [&](const char* cause) {
    throw InputError(fmt::format("{}, line {}: no key", where, number), cause,
                     "write KEY, NAME:KEY, or either with sha256:HEX for KEY");
  };
  AccessKey key{.name = fmt::format("key-{}", number), .sha256 = ""};
  size_t colon = line.find(':');
  if (colon != line.npos && line.substr(0, colon) != kHash) {
    if (!IsName(line.substr(0, colon))) {
      fail("a name has up to 64 letters, digits, '.', '_' and '-', and a key no ':'");
    }
    key.name = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    colon = line.find(':');
  }
  if (line.empty()) fail("there is nothing behind the name");
  if (colon == line.npos) {
    key.sha256 = Sha256Hex(line);
    return key;
  }
  if (line.substr(0, colon) != kHash) fail("a key has no ':'");
  key.sha256 = line.substr(colon + 1);
  std::ranges::transform(key.sha256, key.sha256.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  constexpr size_t kDigits = 64;
  if (key.sha256.size() != kDigits || !IsSmallHex(key.sha256)) {
    fail("behind sha256: stand 64 hexadecimal digits");
  }
  return key;
}

// Takes as long wherever they differ. REQUIRES: of one size.
bool Same(std::string_view a, std::string_view b) {
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

// A group of root's alone is how systemd hands out what it was told to keep.
void WarnWhereOthersRead(const std::string& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const bool group = (status.st_mode & S_IRGRP) != 0 && status.st_gid != 0;
  if (!group && (status.st_mode & S_IROTH) == 0) return;
  LogWarning(fmt::format("{}: others than its owner can read these keys; chmod 600 {} mends it",
                         file, ShellWord(file)));
}

}  // namespace

AccessKeys ParseKeys(std::string_view text, const std::string& where) {
  AccessKeys keys;
  size_t number = 0;
  for (std::string line : Split(text, '\n')) {
    ++number;
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty() && line[0] != '#') keys.push_back(ParseKey(line, number, where));
  }
  if (keys.empty()) {
    throw InputError(fmt::format("{}: no key", where), "expected one key a line",
                     "write one into it, as of: openssl rand -hex 32");
  }
  return keys;
}

AccessKeys ReadKeys(const std::string& file) {
  constexpr uint64_t kMost = 1 << 20;
  AccessKeys keys = ParseKeys(ReadFile(file, kMost), file);
  WarnWhereOthersRead(file);
  return keys;
}

std::optional<std::string> NameOfKey(const AccessKeys& keys, std::string_view given) {
  const std::string hash = Sha256Hex(given);
  const AccessKey* known = nullptr;
  for (const AccessKey& key : keys) known = Same(hash, key.sha256) ? &key : known;
  return known == nullptr ? std::nullopt : std::optional(known->name);
}

}  // namespace folio
