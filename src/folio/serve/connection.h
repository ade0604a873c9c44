#pragma once

#include <httplib.h>

#include <array>
#include <cstddef>
#include <string>

#include "folio/io/posix.h"

namespace folio {

// A client's socket, for httplib, with limits that hold for a request as a whole: a client that
// sends or reads a byte a second has no longer than any other.
class Connection final : public httplib::Stream {
 public:
  struct Limits {
    size_t head_bytes = 64 << 10, body_bytes = 8 << 20;
    double receive_seconds = 30;  // for a whole request
    double send_seconds = 30;     // for each piece of an answer
  };

  // Owns the socket.
  Connection(int socket, const Limits& limits);
  ~Connection() override;

  // Waits until the next request begins; false if none does in so many seconds, or `stopped`.
  bool WaitForRequest(double seconds, const std::function<bool()>& stopped);
  // The head has come, the body begins.
  void HeadRead() { left_ = limits_.body_bytes; }
  // Whether the client has closed its end.
  bool gone() const;
  const std::string& address() const { return address_; }

  bool is_readable() const override;
  bool is_writable() const override { return !gone(); }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_.get(); }

 private:
  bool WaitFor(short events, double deadline) const;

  internal::FileDescriptor socket_;
  Limits limits_;
  std::string address_;
  std::array<char, 16 << 10> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what has come and was not read
  size_t left_ = 0;             // bytes that may still come
  double deadline_ = 0;         // of the request
};

}  // namespace folio
