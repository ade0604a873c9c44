#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "folio/base/error.h"
#include "folio/serve/http.h"

namespace folio {

// Why a request is not answered, as OpenAI's clients read it:
//   {"error": {"message", "type", "param", "code"}}
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}
  // A mistake of the request's content is a 400, anything else a 500 or 503.
  explicit ApiError(const Error& error);

  int status() const { return status_; }
  // The JSON of the error alone.
  std::string body() const;
  HttpReply reply() const;

 private:
  int status_;
  std::string param_, code_;
};

// Returns the reply to a request of another method than `method`, the one that an address takes (""
// where it takes all); nothing for a request that fits. Everything may be asked for its options.
std::optional<HttpReply> ReplyToOtherMethod(const HttpRequest& request, std::string_view method);

}  // namespace folio
