#pragma once

#include <string>
#include <thread>

#include "folio/serve/http_server.h"
#include "folio/serve/service.h"

namespace folio {

// A service that answers at an address, on threads of its own, until it is stopped.
class BackgroundServer {
 public:
  // Takes the address; who connects waits until Begin. `service` must outlive it. Throws as
  // HttpServer::Bind.
  BackgroundServer(Service& service, const std::string& host, int port,
                   const HttpLimits& limits = {});
  ~BackgroundServer();  // stops
  BackgroundServer(const BackgroundServer&) = delete;

  int port() const { return port_; }
  const std::string& url() const { return url_; }  // "http://127.0.0.1:8080"
  int connections() const { return server_.connections(); }

  // Answers from here on.
  void Begin();
  // Takes no more requests, and returns when those that run have ended.
  void Stop();

 private:
  HttpServer server_;
  int port_;
  std::string url_;
  std::thread thread_;
};

}  // namespace folio
