#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace folio {

// Answers every request to a port of this machine with `answer` of its text, one connection after
// the other.
class AnsweringServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit AnsweringServer(Answer answer) : answer_(std::move(answer)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_TRUE(bind(listener_, any, size) == 0 && listen(listener_, 16) == 0 &&
                getsockname(listener_, any, &size) == 0);
    url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  AnsweringServer(const AnsweringServer&) = delete;
  ~AnsweringServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  const std::string& url() const { return url_; }
  // All requests so far, concatenated.
  std::string requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    for (;;) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      constexpr timeval kMinute = {.tv_sec = 60, .tv_usec = 0};
      setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kMinute, sizeof(kMinute));
      std::string request;
      char piece[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = read(connection, piece, sizeof(piece));
        if (n <= 0) break;
        request.append(piece, static_cast<size_t>(n));
      }
      {
        const std::scoped_lock lock(mutex_);
        requests_ += request;
      }
      const std::string text = answer_(request);
      (void)!send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      shutdown(connection, SHUT_WR);
      while (read(connection, piece, sizeof(piece)) > 0) {
      }
      close(connection);
    }
  }

  const Answer answer_;
  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  std::string url_;
  mutable std::mutex mutex_;
  std::string requests_;
  std::thread thread_;
};

}  // namespace folio
