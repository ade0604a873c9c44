#include "folio/serve/http_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cmath>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/serve/http.h"
#include "folio/serve/sockets.h"

namespace folio {
namespace {

namespace http = boost::beast::http;

bool WaitFor(int socket, short events, double seconds) {
  pollfd wanted{.fd = socket, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&wanted, 1, static_cast<int>(seconds * 1e3));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

std::string HttpAnswer::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const auto& one) { return SameName(one.first, name); });
  return found == headers.end() ? "" : found->second;
}

bool HttpClient::Connect(std::string& why) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(static_cast<uint16_t>(port_));
  const bool is_v6 = inet_pton(AF_INET6, host_.c_str(), &v6.sin6_addr) == 1;
  if (!is_v6 && inet_pton(AF_INET, host_.c_str(), &v4.sin_addr) != 1) {
    why = fmt::format("'{}' is not a numeric address", host_);
    return false;
  }
  socket_.emplace(OpenSocket(is_v6 ? AF_INET6 : AF_INET));
  rest_.clear();
  const auto* const address =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  int error = 0;
  if (connect(socket_->get(), address, is_v6 ? sizeof v6 : sizeof v4) != 0) error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (WaitFor(socket_->get(), POLLOUT, seconds_)) {
      getsockopt(socket_->get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) {
    why = fmt::format("{}:{}: {}", host_, port_, std::system_category().message(error));
    socket_.reset();
    return false;
  }
  const int on = 1;
  setsockopt(socket_->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket_->get(), F_SETFL, 0);  // it waits from here on
  const timeval silence{.tv_sec = static_cast<time_t>(seconds_),
                        .tv_usec = static_cast<suseconds_t>(std::fmod(seconds_, 1) * 1e6)};
  setsockopt(socket_->get(), SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
  setsockopt(socket_->get(), SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence);
  return true;
}

bool HttpClient::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

HttpAnswer HttpClient::Ask(const std::string& method, const std::string& target,
                           const std::string& body, const Headers& headers, const Take& take) {
  std::string request = fmt::format("{} {} HTTP/1.1\r\n", method, target);
  const bool named =
      std::ranges::any_of(headers, [](const auto& one) { return SameName(one.first, "Host"); });
  if (!named) request += fmt::format("Host: {}:{}\r\n", host_, port_);
  for (const auto& [name, value] : headers) request += fmt::format("{}: {}\r\n", name, value);
  if (!body.empty()) {
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  request += "\r\n" + body;
  for (;;) {
    const bool kept = socket_.has_value();
    std::string why;
    if (!kept && !Connect(why)) return {.body = why};
    // If it cannot all be sent, there may be an answer that says why.
    Send(request);
    bool silent = true;
    HttpAnswer answer = Receive(method, take, silent);
    // The service may have closed a kept connection before it saw the request.
    if (answer || !kept || !silent) return answer;
  }
}

HttpAnswer HttpClient::Receive(const std::string& method, const Take& take, bool& silent) {
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  parser.skip(method == "HEAD");
  HttpAnswer answer;
  const auto ends = [&](const std::string& why) {
    socket_.reset();
    answer.status = 0;
    answer.body = why;
    return answer;
  };
  std::array<char, 64 << 10> bytes;
  while (!parser.is_done()) {
    boost::system::error_code error;
    if (rest_.empty() || parser.got_some()) {
      const ssize_t count = recv(socket_->get(), bytes.data(), bytes.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return ends("timeout while waiting for the answer");
      if (count > 0) {
        silent = false;
        rest_.append(bytes.data(), static_cast<size_t>(count));
      } else if (!parser.got_some()) {
        return ends("the connection was closed without an answer");
      } else {
        parser.put_eof(error);
        if (error) return ends("the connection was closed during an answer");
      }
    }
    while (!rest_.empty() && !parser.is_done() && !error) {
      rest_.erase(0, parser.put(boost::asio::const_buffer(rest_.data(), rest_.size()), error));
    }
    if (error && error != http::error::need_more) return ends(error.message());
    std::string piece = std::exchange(parser.get().body(), {});
    if (take && !piece.empty() && !take(piece)) {
      socket_.reset();
      break;
    }
    if (!take) answer.body += piece;
  }
  answer.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    answer.headers.emplace_back(field.name_string(), field.value());
  }
  if (!parser.is_done() || !parser.keep_alive()) socket_.reset();
  return answer;
}

namespace {

// StreamedAnswer holds what a client reads of one answer.
struct StreamedAnswer {
  int status = 0;
  std::string text, rest;
  int64_t tokens = 0;
  double first = 0, last = 0;
  bool whole = false;

  void Take(std::string_view bytes) {
    rest += bytes;
    for (size_t end = 0; (end = rest.find("\n\n")) != std::string::npos;) {
      Event(rest.substr(0, end));
      rest.erase(0, end + 2);
    }
  }

 private:
  void Event(std::string_view event) {
    constexpr std::string_view kData = "data: ";
    if (!event.starts_with(kData)) return;
    event.remove_prefix(kData.size());
    if (event == "[DONE]") {
      whole = true;
      return;
    }
    const Json chunk = ParseJson(event, "an event");
    const Json* choices = chunk.find("choices");
    for (const Json& choice : choices == nullptr ? Json::array() : *choices) {
      const Json* shown = choice.find("text");
      if (shown == nullptr || !shown->is_string() || shown->text().empty()) continue;
      text += shown->text();
      last = SteadySeconds();
      if (first == 0) first = last;
    }
    const Json* usage = chunk.find("usage");
    const Json* written = usage == nullptr ? nullptr : usage->find("completion_tokens");
    if (written != nullptr && written->is_number_integer() && written->get<double>() < 1e15) {
      tokens = written->get<int64_t>();
    }
  }
};

}  // namespace

double LoadResult::Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(q * last))];
}

Json LoadResult::json() const {
  return {{"clients", clients},
          {"seconds", seconds},
          {"requests", requests},
          {"refused", refused},
          {"failed", failed},
          {"different", different},
          {"requests_per_second", static_cast<double>(requests) / seconds},
          {"tokens_per_second", static_cast<double>(tokens) / seconds},
          {"first_token_median_seconds", Quantile(first_token, 0.5)},
          {"first_token_p99_seconds", Quantile(first_token, 0.99)},
          {"between_tokens_median_seconds", Quantile(between_tokens, 0.5)},
          {"between_tokens_p99_seconds", Quantile(between_tokens, 0.99)}};
}

LoadResult LoadGenerator::Run(int clients) {
  constexpr char kHost[] = "127.0.0.1";
  LoadResult result{.clients = clients};
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const double begin = SteadySeconds(), end = begin + options_.seconds;
  const auto ask = [&](HttpClient& client, size_t p) {
    const Json body{{"prompt", options_.prompts[p]},
                    {"max_tokens", options_.max_tokens},
                    {"seed", 1},
                    {"temperature", 0.8},
                    {"ignore_eos", true},
                    {"stream", true},
                    {"stream_options", Json{{"include_usage", true}}}};
    StreamedAnswer answer;
    answer.status = client
                        .Ask("POST", "/v1/completions", body.dump(), {},
                             [&](std::string_view piece) {
                               answer.Take(piece);
                               return true;
                             })
                        .status;
    return answer;
  };
  const auto drive = [&] {
    constexpr double kPatience = 600;  // seconds
    HttpClient client(kHost, options_.port, kPatience);
    while (SteadySeconds() < end) {
      const size_t p = next++ % options_.prompts.size();
      const double asked = SteadySeconds();
      const StreamedAnswer answer = ask(client, p);
      if (answer.status == 429) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::lock_guard lock(mutex);
      if (answer.status == 429) {
        ++result.refused;
        continue;
      }
      if (answer.status != 200 || !answer.whole) {
        ++result.failed;
        continue;
      }
      ++result.requests;
      result.tokens += answer.tokens;
      result.first_token.push_back(answer.first - asked);
      if (answer.tokens > 1) {
        result.between_tokens.push_back((answer.last - answer.first) /
                                        static_cast<double>(answer.tokens - 1));
      }
      if (known_[p].empty()) known_[p] = answer.text;
      result.different += known_[p] == answer.text ? 0 : 1;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back(drive);
  for (std::thread& thread : threads) thread.join();
  result.seconds = SteadySeconds() - begin;
  std::ranges::sort(result.first_token);
  std::ranges::sort(result.between_tokens);
  if (result.requests == 0) {
    throw RuntimeError(fmt::format("no request to {}:{} was answered", kHost, options_.port),
                       fmt::format("{} failed, {} were refused", result.failed, result.refused));
  }
  return result;
}

}  // namespace folio
