#include "folio/serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "folio/serve/api_error.h"
#include "folio/serve/generation_fields.h"

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
  if (!IsOurs(rules, NameOf(host))) {
    throw ApiError(
        403, fmt::format("'{}' is no name of this service (--allow-host)", host.substr(0, 100)));
  }
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host &&
      !Knows(rules, origin)) {
    throw ApiError(403, "pages of other origins may not ask (--cors)");
  }
  if (keys.empty()) return "";
  const std::string given = KeyOf(request);
  if (const std::optional<std::string> name = NameOfKey(keys, given)) return *name;
  if (open || request.method == "OPTIONS") return "";
  throw ApiError(401,
                 given.empty() ? "an API key is needed: Authorization: Bearer <key>"
                               : "the API key is not one of this service",
                 "", "invalid_api_key");
}

std::string NewRequestId() {
  return NewAnswerId("req");
}

std::string RequestIdOf(const HttpRequest& request) {
  constexpr size_t kLongest = 128;
  constexpr std::string_view kOfIds =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/+=~@";
  std::string given = request.header("X-Request-Id");
  const bool fits = !given.empty() && given.size() <= kLongest &&
                    given.find_first_not_of(kOfIds) == std::string::npos;
  return fits ? given : NewRequestId();
}

ClientName NameOfClient(const HttpRequest& request) {
  return {.key = request.key, .address = NetworkOf(request.client)};
}

void AddCorsHeaders(const AccessRules& rules, const HttpRequest& request, HttpReply& reply) {
  const std::string origin = request.header("Origin");
  if (origin.empty() || !Knows(rules, origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
  reply.headers.emplace_back("Vary", "Origin");
  reply.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id");
  if (request.method != "OPTIONS") return;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             "Authorization, Content-Type, X-Api-Key, X-Request-Id");
}

}  // namespace folio
