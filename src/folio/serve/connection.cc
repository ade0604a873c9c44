#include "folio/serve/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "folio/base/clock.h"

namespace folio {
namespace {

// The numeric address and the port of one end.
std::pair<std::string, int> EndOf(int socket,
                                  int (*name)(int, struct sockaddr*, socklen_t*) noexcept) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  std::array<char, INET6_ADDRSTRLEN> text{};
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (name(socket, address, &size) != 0) return {};
  if (storage.ss_family == AF_INET6) {
    const auto* ip = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &ip->sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(ip->sin6_port)};
  }
  const auto* ip = reinterpret_cast<const sockaddr_in*>(&storage);
  inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
  return {text.data(), ntohs(ip->sin_port)};
}

}  // namespace

Connection::Connection(int socket, const Limits& limits)
    : socket_(socket), limits_(limits), address_(EndOf(socket, getpeername).first) {
  const int on = 1;  // a token is sent when it comes
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() {
  shutdown(socket_.get(), SHUT_RDWR);
}

bool Connection::WaitFor(short events, double deadline) const {
  for (;;) {
    const double left = deadline - SteadySeconds();
    if (left <= 0) return false;
    pollfd wanted{.fd = socket_.get(), .events = events, .revents = 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::ceil(std::min(left, 1e6) * 1e3)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Connection::WaitForRequest(double seconds, const std::function<bool()>& stopped) {
  constexpr double kLook = 0.1;  // how often `stopped` is asked
  left_ = limits_.head_bytes;
  for (const double end = SteadySeconds() + seconds; begin_ == end_;) {
    const double now = SteadySeconds();
    if (stopped() || now >= end) return false;
    if (WaitFor(POLLIN, std::min(end, now + kLook))) break;
  }
  deadline_ = SteadySeconds() + limits_.receive_seconds;
  return !stopped();
}

bool Connection::gone() const {
  pollfd wanted{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&wanted, 1, 0) != 0;
}

bool Connection::is_readable() const {
  return begin_ < end_ || WaitFor(POLLIN, SteadySeconds());
}

ssize_t Connection::read(char* data, size_t size) {
  if (begin_ == end_) {
    if (!WaitFor(POLLIN, deadline_)) return -1;
    const ssize_t count = recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
    if (count <= 0) return count;
    // Clients that send a head and then its body may wait for word of the head.
    const int on = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    begin_ = 0;
    end_ = static_cast<size_t>(count);
  }
  const size_t count = std::min({size, end_ - begin_, left_});
  if (count == 0) return -1;  // too much of it
  std::memcpy(data, buffer_.data() + begin_, count);
  begin_ += count;
  left_ -= count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* data, size_t size) {
  const double deadline = SteadySeconds() + limits_.send_seconds;
  for (size_t sent = 0; sent < size;) {
    const ssize_t count =
        send(socket_.get(), data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if ((errno != EAGAIN && errno != EINTR) || !WaitFor(POLLOUT, deadline)) {
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  std::tie(ip, port) = EndOf(socket_.get(), getpeername);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  std::tie(ip, port) = EndOf(socket_.get(), getsockname);
}

}  // namespace folio
