#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/posix.h"

namespace folio {

struct HttpAnswer {
  int status = 0;  // 0: there was none, and `body` says why
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};

  explicit operator bool() const { return status != 0; }
  // In any case; "" where there is none.
  std::string header(std::string_view name) const;
};

// Asks a service for one thing after the other, over one connection while that lives.
class HttpClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  // Takes a piece of an answer's body; false where it wants no more of it.
  using Take = std::function<bool(std::string_view piece)>;

  // The host is a numeric address. `seconds`: for the connection, and for each silence.
  HttpClient(std::string host, int port, double seconds = 60)
      : host_(std::move(host)), port_(port), seconds_(seconds) {}

  // Adds "Host" unless it is given. With `take` the body is not kept.
  HttpAnswer Ask(const std::string& method, const std::string& target, const std::string& body = "",
                 const Headers& headers = {}, const Take& take = {});
  HttpAnswer Get(const std::string& target, const Headers& headers = {}) {
    return Ask("GET", target, "", headers);
  }

 private:
  bool Connect(std::string& why);
  bool Send(std::string_view bytes) const;
  HttpAnswer Receive(const std::string& method, const Take& take, bool& silent);

  std::string host_;
  int port_;
  double seconds_;
  std::optional<internal::FileDescriptor> socket_;
  std::string rest_;  // has come behind the last answer
};

}  // namespace folio
