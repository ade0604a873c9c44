#include "folio/serve/api_error.h"

#include <fmt/format.h>

#include "folio/io/json.h"

namespace folio {
namespace {

int StatusOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kInput:
      return 400;
    case ErrorKind::kResource:
      return 503;
    default:
      return 500;
  }
}

const char* TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

ApiError::ApiError(const Error& error)
    : ApiError(StatusOf(error.kind()), error.cause().empty()
                                           ? std::string(error.what())
                                           : fmt::format("{}: {}", error.what(), error.cause())) {}

std::string ApiError::body() const {
  return Json{{"error", Json{{"message", what()},
                             {"type", TypeOf(status_)},
                             {"param", OrNull(param_)},
                             {"code", OrNull(code_)}}}}
      .dump();
}

HttpReply ApiError::reply() const {
  HttpReply reply{.status = status_, .body = body()};
  if (status_ == 429 || status_ == 503) reply.headers.emplace_back("Retry-After", "1");
  if (status_ == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

std::optional<HttpReply> ReplyToOtherMethod(const HttpRequest& request, std::string_view method) {
  if (request.method == "OPTIONS") return HttpReply{.status = 204};
  const bool head = request.method == "HEAD" && method == "GET";
  if (method.empty() || request.method == method || head) return {};
  HttpReply reply = ApiError(405, fmt::format("this address takes {} alone", method)).reply();
  reply.headers.emplace_back("Allow", method);
  return reply;
}

}  // namespace folio
