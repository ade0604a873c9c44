#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "folio/serve/access.h"
#include "folio/serve/http.h"

namespace folio {

struct HttpLimits {
  int connections = 256;       // at a time; later ones are refused (503)
  int client_connections = 0;  // of one address, or network of IPv6 (429); 0: half of them
  // The addresses of proxies, whose connections are those of many clients.
  std::vector<AddressBlock> proxies = {};
  int requests = 1000;  // of a connection, so that none is forever
  size_t head_bytes = 64 << 10;
  size_t body_bytes = 8 << 20;
  // Bodies take their bytes from this budget until their handler runs; null: without such a limit.
  std::shared_ptr<MemoryBudget> memory = {};
  double head_seconds = 10;     // for a head, from its first byte
  double receive_seconds = 30;  // for a whole request, from its first byte
  double send_seconds = 30;     // for each 64 KiB of an answer to be taken
  double idle_seconds = 5;      // between the requests of a connection
  int threads = 16;             // on which the handler runs; half of them for one client
  // These paths are answered when all else is full: on the thread of the connections, so that the
  // handler has to be quick there.
  std::vector<std::string> at_once = {"/health"};
};

// A server of HTTP/1.1 that reads strictly (docs/serve.md). One thread has all connections, a few
// run the handler, and others make the parts of streams. Each connection is within limits, so that
// no client can take more than its share from the others.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(HttpRequest)>;
  // Called for a request that never reached the handler. Returns the X-Request-Id of its answer, or
  // "".
  using Refused =
      std::function<std::string(const std::string& client, int status, const std::string& reason)>;

  // The handler is called by many threads at once, for requests of any kind. An exception of the
  // handler is told as a 500 without its text, and logged. `refused` is called by the thread of the
  // connections.
  HttpServer(Handler handler, const HttpLimits& limits = {}, Refused refused = {});
  ~HttpServer();  // REQUIRES: Serve has returned

  // Listens at a numeric address or "localhost"; port 0 takes one that is free. Returns the port.
  // Throws a kUsage Error for an address that is none, a kRuntime Error where it is taken.
  int Bind(const std::string& host, int port);
  // Answers until Stop, with threads that begin here, and returns when the last connection has
  // ended.
  void Serve();
  // Takes no more connections and requests, from any thread; those that run end.
  void Stop();

  int connections() const;  // now, without those that are refused

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace folio
