#include "folio/serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/serve/api_error.h"

namespace folio {
namespace {

// The name in "name", "name:port", "[::1]" or "[::1]:port", in small letters; "" for anything else.
std::string NameOf(std::string_view host) {
  const bool v6 = host.starts_with('[');
  const size_t end = std::min(host.find(v6 ? ']' : ':'), host.size());
  const std::string_view rest = host.substr(std::min(end + (v6 ? 1 : 0), host.size()));
  if (!rest.empty() && (rest[0] != ':' || rest.find_first_not_of("0123456789", 1) != rest.npos)) {
    return "";
  }
  std::string name(host.substr(v6 ? 1 : 0, end - (v6 ? 1 : 0)));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

bool IsAddress(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

bool IsOurs(const AccessRules& rules, const std::string& name) {
  return name == "localhost" || IsAddress(name) || std::ranges::count(rules.hosts, name) > 0;
}

// Takes as long wherever they differ.
bool Same(std::string_view a, std::string_view b) {
  size_t different = a.size() ^ b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<size_t>(a[i] ^ (i < b.size() ? b[i] : ~a[i]));
  }
  return different == 0;
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

void CheckAccess(const AccessRules& rules, const HttpRequest& request, bool open) {
  const std::string host = request.header("Host"), origin = request.header("Origin");
  if (!IsOurs(rules, NameOf(host))) {
    throw ApiError(
        403, fmt::format("'{}' is no name of this service (--allow-host)", host.substr(0, 100)));
  }
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host &&
      !Knows(rules, origin)) {
    throw ApiError(403, "pages of other origins may not ask (--cors)");
  }
  if (open || rules.keys.empty() || request.method == "OPTIONS") return;
  const std::string given = KeyOf(request);
  bool known = false;
  for (const std::string& key : rules.keys) known = Same(given, key) || known;
  if (known) return;
  throw ApiError(401,
                 given.empty() ? "an API key is needed: Authorization: Bearer <key>"
                               : "the API key is not one of this service",
                 "", "invalid_api_key");
}

void AddCorsHeaders(const AccessRules& rules, const HttpRequest& request, HttpReply& reply) {
  const std::string origin = request.header("Origin");
  if (origin.empty() || !Knows(rules, origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
  reply.headers.emplace_back("Vary", "Origin");
  if (request.method != "OPTIONS") return;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             "Authorization, Content-Type, X-Api-Key");
}

std::vector<std::string> ReadKeys(const std::string& file) {
  constexpr uint64_t kMost = 1 << 20;
  std::vector<std::string> keys;
  for (std::string line : Split(ReadFile(file, kMost), '\n')) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty() && line[0] != '#') keys.push_back(line);
  }
  if (keys.empty()) {
    throw InputError(fmt::format("{}: no key", file), "expected one key a line",
                     "write one into it, as of: openssl rand -hex 32");
  }
  return keys;
}

}  // namespace folio
