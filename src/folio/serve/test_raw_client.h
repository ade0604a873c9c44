#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "folio/serve/http_server.h"

namespace folio {

// A server of HTTP that answers, on a thread of its own, as long as this lives.
class RunningServer {
 public:
  explicit RunningServer(HttpServer::Handler handler, const HttpLimits& limits = {},
                         HttpServer::Refused refused = {})
      : server_(std::move(handler), limits, std::move(refused)),
        port_(server_.Bind("127.0.0.1", 0)),
        thread_([this] { server_.Serve(); }) {}
  ~RunningServer() {
    server_.Stop();
    thread_.join();
  }

  int port() const { return port_; }
  int connections() const { return server_.connections(); }

 private:
  HttpServer server_;
  int port_;
  std::thread thread_;
};

// A client that need not know HTTP.
class RawClient {
 public:
  // `from`: an address of this machine.
  explicit RawClient(int port, const char* from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  // False once the server has closed.
  bool Send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Returns what comes until the server closes, or for so many seconds without anything, or so many
  // bytes.
  std::string Receive(double seconds = 20, size_t most = size_t{1} << 30) const {
    std::string text;
    std::array<char, 4096> bytes{};
    while (text.size() < most) {
      pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
      if (poll(&wanted, 1, static_cast<int>(seconds * 1e3)) <= 0) break;
      const ssize_t count = recv(fd_, bytes.data(), bytes.size(), 0);
      if (count <= 0) break;
      text.append(bytes.data(), static_cast<size_t>(count));
    }
    return text;
  }
  // Ends the connection without a word of farewell.
  void Reset() const {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

 private:
  int fd_;
  bool connected_ = false;
};

}  // namespace folio
