#include "folio/serve/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <system_error>
#include <unordered_map>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/serve/connection.h"
#include "folio/serve/sockets.h"

namespace folio {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Connections beyond the limits, of which the latest are heard: health is asked for by one of them.
constexpr size_t kReserve = 256;
constexpr rlim_t kOtherFiles = 1024;  // that a process may have open beside its connections

// Returns the numeric address; "" where there is none.
std::string AddressOf(const sockaddr_storage& name) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (name.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

int OfOneClient(const HttpLimits& limits) {
  if (limits.client_connections > 0) return limits.client_connections;
  return std::max(limits.connections / 2, 1);
}

// Raises the limit of open files for so many connections, as far as the process may.
void AllowFiles(int connections) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(connections) + kReserve + kOtherFiles;
  if (files.rlim_cur >= wanted) return;
  files.rlim_cur = std::min(wanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < wanted) {
    LogWarning(
        fmt::format("{} connections need up to {} open files; the limit of this process is {}",
                    connections, wanted, files.rlim_cur));
  }
}

}  // namespace

struct HttpServer::Impl {
  Impl(Handler handler, const HttpLimits& limits, Refused refused)
      : context(std::move(handler), limits, std::move(refused)),
        listening(context.io),
        pause(context.io) {
    context.ended = [this](Connection& connection) { Ended(connection); };
  }

  void Accept();
  void AcceptAll();
  bool Take(int socket, const std::string& address);  // false where there is no memory for it
  void Add(int socket, const std::string& address);
  void TurnFirstAway();
  void Ended(Connection& connection);
  void Run();

  struct Place {
    std::shared_ptr<Connection> connection;
    std::string counted;  // as NetworkOf has it
  };

  ServerContext context;
  asio::posix::stream_descriptor listening;
  asio::steady_timer pause;
  std::unordered_map<Connection*, Place> connections;
  std::map<std::string, int> by_client;  // how many of `connections`, those that have a place
  std::deque<Connection*> waiting;       // that have none and were not told yet
  std::atomic<int> count = 0;
};

HttpServer::HttpServer(Handler handler, const HttpLimits& limits, Refused refused)
    : impl_(std::make_unique<Impl>(std::move(handler), limits, std::move(refused))) {}

HttpServer::~HttpServer() = default;

int HttpServer::Bind(const std::string& host, int port) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  socklen_t size = sizeof *v4;
  const std::string numeric = host == "localhost" ? "127.0.0.1" : host;
  if (inet_pton(AF_INET, numeric.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
  } else if (inet_pton(AF_INET6, numeric.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof *v6;
  } else {
    throw UsageError(fmt::format("--host: '{}' is not an address", host),
                     "expected localhost or a numeric address of this machine",
                     "use --host 127.0.0.1 for this machine only, --host 0.0.0.0 for all networks");
  }
  AllowFiles(impl_->context.limits.connections);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  const int socket = OpenSocket(storage.ss_family);
  const int on = 1;
  if (socket >= 0) setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket < 0 || bind(socket, address, size) != 0 || listen(socket, SOMAXCONN) != 0) {
    const int error = errno;
    if (socket >= 0) close(socket);
    throw RuntimeError(fmt::format("cannot listen on {}, port {}", host, port),
                       std::system_category().message(error),
                       "choose another with --port; 0 chooses a free one");
  }
  impl_->listening.assign(socket);
  getsockname(socket, address, &size);
  return ntohs(storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void HttpServer::Impl::Accept() {
  listening.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (!error && !context.stopped) AcceptAll();
  });
}

// Accepts waiting connections, not too many at once: others have their turn, too.
void HttpServer::Impl::AcceptAll() {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    const int client =
        AcceptSocket(listening.native_handle(), reinterpret_cast<sockaddr*>(&name), &size);
    const int error = client >= 0 ? 0 : errno;
    if (error == EAGAIN) break;
    if (client >= 0 && Take(client, AddressOf(name))) continue;
    if (error == ECONNABORTED || error == EINTR) continue;
    // There are no more files or memory until other connections have ended.
    TurnFirstAway();
    pause.expires_after(std::chrono::milliseconds(10));
    return pause.async_wait([this](error_code failed) {
      if (!failed && !context.stopped) AcceptAll();
    });
  }
  Accept();
}

bool HttpServer::Impl::Take(int socket, const std::string& address) {
  try {
    Add(socket, address);
  } catch (const std::bad_alloc&) {  // the connection that there is of it closes the socket
    return false;
  }
  return true;
}

// Turns away the first waiting connection that has sent a part of a request, since short requests
// come in one piece, else the first of all.
void HttpServer::Impl::TurnFirstAway() {
  if (waiting.empty()) return;
  auto first = std::ranges::find_if(waiting, [](const auto* one) { return one->receiving(); });
  if (first == waiting.end()) first = waiting.begin();
  Connection* const connection = *first;
  waiting.erase(first);
  connection->TurnAway();
}

void HttpServer::Impl::Add(int socket, const std::string& address) {
  const HttpLimits& limits = context.limits;
  const bool proxy = std::ranges::any_of(
      limits.proxies, [&](const AddressBlock& block) { return block.Has(address); });
  const std::string counted = NetworkOf(address);
  int& of_client = by_client[counted];
  int turned_away = 0;
  if (count >= limits.connections) {
    turned_away = 503;
  } else if (!proxy && of_client >= OfOneClient(limits)) {
    turned_away = 429;
  }
  const auto connection = std::make_shared<Connection>(context, socket, address, turned_away);
  connections[connection.get()] = {connection, counted};
  if (turned_away == 0) {
    ++of_client;
    ++count;
  } else {
    waiting.push_back(connection.get());
    if (waiting.size() > kReserve) TurnFirstAway();
  }
  connection->Begin();
}

void HttpServer::Impl::Ended(Connection& connection) {
  const auto place = connections.find(&connection);
  if (connection.turned_away() == 0) {
    --by_client[place->second.counted];
    --count;
  } else {
    std::erase(waiting, &connection);
  }
  const auto of_client = by_client.find(place->second.counted);
  if (of_client != by_client.end() && of_client->second == 0) by_client.erase(of_client);
  connections.erase(place);
  if (connections.empty() && context.stopped) context.io.stop();
}

void HttpServer::Impl::Run() {
  TakeShortTurns();  // of this thread and those of the context: texts are sent while a model
                     // computes
  context.Begin();
  const auto work = asio::make_work_guard(context.io);
  context.io.restart();
  for (;;) {
    try {
      context.io.run();
      break;
    } catch (const std::exception& error) {  // as where memory has ended
      LogWarning(fmt::format("error in the connection thread (continuing): {}", error.what()));
    }
  }
}

void HttpServer::Serve() {
  if (!impl_->context.stopped) {
    asio::post(impl_->context.io, [this] { impl_->Accept(); });
    impl_->Run();
  }
  error_code ignored;
  impl_->listening.close(ignored);
}

void HttpServer::Stop() {
  impl_->context.stopped = true;
  asio::post(impl_->context.io, [impl = impl_.get()] {
    error_code ignored;
    impl->listening.close(ignored);
    impl->pause.cancel(ignored);
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, place] : impl->connections) all.push_back(place.connection);
    for (const auto& connection : all) connection->Stop();
    if (impl->connections.empty()) impl->context.io.stop();
  });
}

int HttpServer::connections() const {
  return impl_->count;
}

}  // namespace folio
