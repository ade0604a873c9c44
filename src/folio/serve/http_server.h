#pragma once

#include <functional>
#include <memory>
#include <string>

#include "folio/serve/http.h"

namespace folio {

struct HttpLimits {
  int connections = 256;  // at a time; who comes later is told so (503) and closed
  size_t head_bytes = 64 << 10;
  size_t body_bytes = 8 << 20;
  double receive_seconds = 30;  // for a whole request, from its first byte
  double send_seconds = 30;     // for each piece of an answer
  double idle_seconds = 5;      // between the requests of a connection
};

// HTTP/1.1 on a socket: a thread for each connection, each within limits, so that no client can
// take more than its connection from the others.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // The handler is called by many threads at once, for requests of any kind. What it throws is told
  // as a 500 without its text, and logged.
  HttpServer(Handler handler, const HttpLimits& limits = {});
  ~HttpServer();  // REQUIRES: Serve has returned

  // Listens at a numeric address or "localhost"; port 0 takes one that is free. Returns the port.
  // Throws a kUsage Error for an address that is none, a kRuntime Error where it is taken.
  int Bind(const std::string& host, int port);
  // Answers until Stop, and returns when the last connection has ended.
  void Serve();
  // Answers what comes over a connected socket, which it owns, until either side ends. Serve does
  // so for each connection.
  void Converse(int socket);
  // From any thread or none: takes no more connections and requests; those that run end.
  void Stop();

  int connections() const;  // now

 private:
  class Protocol;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace folio
