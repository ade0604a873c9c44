#include "folio/serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/serve/request_fields.h"

namespace folio {
namespace {

using AddressBytes = std::array<uint8_t, 16>;
constexpr AddressBytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};  // ::ffff:0.0.0.0
constexpr int kMappedBits = 96;

std::optional<AddressBytes> ParseAddress(std::string_view text) {
  const std::string numeric(text);
  AddressBytes bytes = kMapped;
  if (inet_pton(AF_INET, numeric.c_str(), bytes.data() + kMappedBits / 8) == 1) return bytes;
  if (inet_pton(AF_INET6, numeric.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

bool SameBits(const AddressBytes& a, const AddressBytes& b, int bits) {
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    if (((a[byte] ^ b[byte]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

bool IsV4(const AddressBytes& bytes) {
  return SameBits(bytes, kMapped, kMappedBits);
}

std::string Text(const AddressBytes& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = IsV4(bytes);
  inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data() + (v4 ? kMappedBits / 8 : 0), text.data(),
            text.size());
  return text.data();
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

AddressBlock::AddressBlock(std::string_view text, std::string_view flag) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::optional<AddressBytes> bytes = ParseAddress(text.substr(0, slash));
  const int most = bytes && IsV4(*bytes) ? 128 - kMappedBits : 128;
  const std::optional<int> bits =
      slash < text.size() ? ParsedNumber<int>(text.substr(slash + 1)) : most;
  if (!bytes || !bits || *bits < 0 || *bits > most) {
    throw UsageError(fmt::format("{}: '{}' is not an address or block of addresses", flag, text),
                     "expected for example 127.0.0.1, 10.0.0.0/8 or fd00::/8");
  }
  bytes_ = *bytes;
  bits_ = *bits + 128 - most;
}

bool AddressBlock::Has(std::string_view address) const {
  const std::optional<AddressBytes> bytes = ParseAddress(address);
  return bytes && SameBits(*bytes, bytes_, bits_);
}

std::string ClientAddress(const std::vector<AddressBlock>& proxies, const std::string& peer,
                          std::string_view forwarded) {
  const std::optional<AddressBytes> known = ParseAddress(peer);
  std::string client = known ? Text(*known) : peer;
  const auto is_proxy = [&] {
    return std::ranges::any_of(proxies,
                               [&](const AddressBlock& block) { return block.Has(client); });
  };
  while (is_proxy() && !forwarded.empty()) {
    const size_t comma = forwarded.rfind(',');
    const bool first = comma == std::string_view::npos;
    const std::optional<AddressBytes> next =
        ParseAddress(Trimmed(first ? forwarded : forwarded.substr(comma + 1)));
    if (!next) break;  // nothing that a proxy wrote
    client = Text(*next);
    forwarded = first ? std::string_view() : forwarded.substr(0, comma);
  }
  return client;
}

std::string NetworkOf(const std::string& address) {
  constexpr size_t kBytes = 8;
  std::optional<AddressBytes> bytes = ParseAddress(address);
  if (!bytes || IsV4(*bytes)) return address;
  std::fill(bytes->begin() + kBytes, bytes->end(), uint8_t{0});
  return Text(*bytes);
}

namespace {

constexpr std::string_view kHash = "sha256";

// Returns true for 1 to `longest` letters, digits and others of these.
bool IsWord(std::string_view text, size_t longest, std::string_view others) {
  return !text.empty() && text.size() <= longest && std::ranges::all_of(text, [&](char c) {
    const char small = static_cast<char>(c | 0x20);
    return (c >= '0' && c <= '9') || (small >= 'a' && small <= 'z') ||
           others.find(c) != others.npos;
  });
}

AccessKey ParseKey(std::string_view line, size_t number, const std::string& where) {
  const auto fail = [&](const char* cause) {
    throw InputError(fmt::format("{}, line {}: not a valid key", where, number), cause,
                     "expected KEY or NAME:KEY; KEY may be sha256:HEX");
  };
  AccessKey key{.name = fmt::format("key-{}", number), .sha256 = ""};
  size_t colon = line.find(':');
  if (colon != line.npos && line.substr(0, colon) != kHash) {
    if (!IsWord(line.substr(0, colon), 64, "._-")) {
      fail("a name has up to 64 letters, digits, '.', '_' and '-'; a key contains no ':'");
    }
    key.name = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    colon = line.find(':');
  }
  if (line.empty()) fail("there is no key after the name");
  if (colon == line.npos) {
    key.sha256 = Sha256Hex(line);
    return key;
  }
  if (line.substr(0, colon) != kHash) fail("a key contains no ':'");
  key.sha256 = LowerAscii(line.substr(colon + 1));
  if (key.sha256.size() != 64 ||
      key.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail("expected 64 hexadecimal digits after sha256:");
  }
  return key;
}

// Compares texts in a time that does not depend on where they differ. REQUIRES: equal sizes.
bool Same(std::string_view a, std::string_view b) {
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

// systemd gives credentials to services as files that the group root may read.
void WarnWhereOthersRead(const std::string& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const bool group = (status.st_mode & S_IRGRP) != 0 && status.st_gid != 0;
  if (!group && (status.st_mode & S_IROTH) == 0) return;
  LogWarning(
      fmt::format("{}: other users can read the keys; run chmod 600 {}", file, ShellWord(file)));
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

namespace {

// The name in "name", "name:port", "[::1]" or "[::1]:port", in small letters; "" for anything else.
std::string NameOf(std::string_view host) {
  const bool v6 = host.starts_with('[');
  const size_t end = std::min(host.find(v6 ? ']' : ':'), host.size());
  const std::string_view rest = host.substr(std::min(end + (v6 ? 1 : 0), host.size()));
  if (!rest.empty() && (rest[0] != ':' || rest.find_first_not_of("0123456789", 1) != rest.npos)) {
    return "";
  }
  return LowerAscii(host.substr(v6 ? 1 : 0, end - (v6 ? 1 : 0)));
}

bool IsOurs(const AccessRules& rules, const std::string& name) {
  return name == "localhost" || ParseAddress(name) || std::ranges::count(rules.hosts, name) > 0;
}

std::string KeyOf(const HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string authorization = request.header("Authorization");
  if (authorization.starts_with(kBearer)) return authorization.substr(kBearer.size());
  return request.header("X-Api-Key");
}

bool Knows(const AccessRules& rules, const std::string& origin) {
  return std::ranges::count(rules.origins, origin) > 0;
}

}  // namespace

std::string CheckAccess(const AccessRules& rules, const AccessKeys& keys,
                        const HttpRequest& request, bool open) {
  const std::string host = request.header("Host"), origin = request.header("Origin");
  if (!host.empty() && !IsOurs(rules, NameOf(host))) {
    throw ApiError(403, fmt::format("'{}' is not a host name of this service (--allow-host)",
                                    host.substr(0, 100)));
  }
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host &&
      !Knows(rules, origin)) {
    throw ApiError(403, "requests from pages of other origins are not allowed (--cors)");
  }
  if (rules.keys.empty()) return "";
  const std::string given = KeyOf(request);
  if (const std::optional<std::string> name = NameOfKey(keys, given)) return *name;
  if (open || request.method == "OPTIONS") return "";
  throw ApiError(
      401,
      given.empty() ? "an API key is required: Authorization: Bearer <key>" : "invalid API key", "",
      "invalid_api_key");
}

std::string NewRequestId() {
  return NewAnswerId("req");
}

std::string RequestIdOf(const HttpRequest& request) {
  std::string given = request.header("X-Request-Id");
  return IsWord(given, 128, "-_.:/+=~@") ? given : NewRequestId();
}

ClientName NameOfClient(const HttpRequest& request) {
  return {.key = request.key, .address = NetworkOf(request.client)};
}

void AddCorsHeaders(const AccessRules& rules, const HttpRequest& request, HttpReply& reply) {
  const std::string origin = request.header("Origin");
  if (origin.empty() || !Knows(rules, origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
  reply.headers.emplace_back("Vary", "Origin");
  reply.headers.emplace_back("Access-Control-Expose-Headers",
                             fmt::format("X-Request-Id, {}", kModelHeader));
  if (request.method != "OPTIONS") return;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             "Authorization, Content-Type, X-Api-Key, X-Request-Id");
}

}  // namespace folio
