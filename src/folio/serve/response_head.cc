#include "folio/serve/response_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <string_view>

#include "folio/serve/api_error.h"

namespace folio {
namespace {

std::string_view PhraseOf(int status) {
  namespace http = boost::beast::http;
  if (http::int_to_status(static_cast<unsigned>(status)) == http::status::unknown) return "Error";
  const auto phrase = http::obsolete_reason(static_cast<http::status>(status));
  return {phrase.data(), phrase.size()};
}

std::string Now() {
  std::array<char, 64> text{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return {text.data(),
          std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

}  // namespace

bool HasBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

std::string ResponseHead(const HttpReply& reply, std::optional<size_t> length, bool chunked,
                         bool keep_alive) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", reply.status, PhraseOf(reply.status), Now());
  const auto add = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ");
    // A value that came from elsewhere begins no line of its own.
    for (const char c : value) head += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    head += "\r\n";
  };
  for (const auto& [name, value] : reply.headers) add(name, value);
  if (HasBody(reply.status)) {
    if (length != 0 || reply.status == 200) add("Content-Type", reply.type);
    if (length) add("Content-Length", std::to_string(*length));
    if (chunked) add("Transfer-Encoding", "chunked");
  }
  if (!keep_alive) add("Connection", "close");
  return head + "\r\n";
}

HttpReply ErrorReply(int status, const std::string& reason) {
  return ApiError(status, reason).reply();
}

}  // namespace folio
