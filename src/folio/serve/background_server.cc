#include "folio/serve/background_server.h"

#include <fmt/format.h>

namespace folio {
namespace {

std::string Url(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

// Bodies that come and requests that are answered share one budget of memory.
HttpLimits WithMemory(HttpLimits limits, const std::shared_ptr<MemoryBudget>& memory) {
  limits.memory = memory;
  return limits;
}

}  // namespace

BackgroundServer::BackgroundServer(Service& service, const std::string& host, int port,
                                   const HttpLimits& limits)
    : server_([&service](const HttpRequest& request) { return service.Answer(request); },
              WithMemory(limits, service.memory()),
              [&service](const std::string& client, int status, const std::string& reason) {
                return service.Refused(client, status, reason);
              }),
      port_(server_.Bind(host, port)),
      url_(Url(host, port_)) {}

BackgroundServer::~BackgroundServer() {
  Stop();
}

void BackgroundServer::Begin() {
  thread_ = std::thread([this] { server_.Serve(); });
}

void BackgroundServer::Stop() {
  server_.Stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace folio
