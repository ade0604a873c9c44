#include "folio/serve/http.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/machine.h"
#include "folio/base/strings.h"

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

int64_t MemoryBudget::DefaultBytes() {
  constexpr uint64_t kLeast = uint64_t{64} << 20, kMost = uint64_t{1} << 30;
  const uint64_t free = ThisMachinesMemory().available;
  return static_cast<int64_t>(free == 0 ? kMost : std::clamp(free / 8, kLeast, kMost));
}

void MemoryBudget::Share::Resize(int64_t bytes) {
  const int64_t more = bytes - bytes_;
  if (more > 0 && budget_ != nullptr) {
    if (bytes > budget_->bytes_) {
      throw ApiError(
          413,
          fmt::format("this request needs up to {} of memory, but the limit for all requests is {}",
                      HumanBytes(bytes), HumanBytes(budget_->bytes_)));
    }
    if (budget_->used_.fetch_add(more) + more > budget_->bytes_) {
      budget_->used_ -= more;
      throw ApiError(503, "not enough memory while other requests are running; try again later");
    }
  } else if (budget_ != nullptr) {
    budget_->used_ += more;
  }
  bytes_ = bytes;
}

MemoryBudget::Share::~Share() {
  if (budget_ != nullptr) budget_->used_ -= bytes_;
}

}  // namespace folio
