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

// The numeric address; "" where there is none.
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

// So many connections, or as many as the process is allowed.
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

class HttpServer::Impl {
 public:
  Impl(Handler handler, const HttpLimits& limits, Refused refused)
      : context_(std::move(handler), limits, std::move(refused)),
        listening_(context_.io),
        pause_(context_.io) {
    context_.ended = [this](Connection& connection) { Ended(connection); };
  }

  int Bind(const std::string& host, int port);
  void Serve();
  void Converse(int socket);
  void Stop();
  int connections() const { return counted_; }

 private:
  void Accept();
  void AcceptAll();
  bool Take(int socket, const std::string& address);  // false where there is no memory for it
  void Add(int socket, const std::string& address);
  void TurnFirstAway();
  void Ended(Connection& connection);
  void Run();

  struct Place {
    std::shared_ptr<Connection> connection;
    std::string counted;  // by what, where it has a place
  };

  ServerContext context_;
  asio::posix::stream_descriptor listening_;
  asio::steady_timer pause_;
  bool conversing_ = false;
  std::unordered_map<Connection*, Place> all_;
  std::map<std::string, int> of_clients_;  // how many of `all_`, those that have a place
  std::deque<Connection*> waiting_;        // that have none and were not told yet
  std::atomic<int> counted_ = 0;
};

int HttpServer::Impl::Bind(const std::string& host, int port) {
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
  AllowFiles(context_.limits.connections);
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
  listening_.assign(socket);
  getsockname(socket, address, &size);
  return ntohs(storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void HttpServer::Impl::Accept() {
  listening_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (!error && !context_.stopped) AcceptAll();
  });
}

// Until there are no more, or for a while: others have their turn, too.
void HttpServer::Impl::AcceptAll() {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    const int client =
        AcceptSocket(listening_.native_handle(), reinterpret_cast<sockaddr*>(&name), &size);
    const int error = client >= 0 ? 0 : errno;
    if (error == EAGAIN) break;
    if (client >= 0 && Take(client, AddressOf(name))) continue;
    if (error == ECONNABORTED || error == EINTR) continue;
    // No more files or memory, until others have ended: who waits to be told so is.
    TurnFirstAway();
    pause_.expires_after(std::chrono::milliseconds(10));
    return pause_.async_wait([this](error_code failed) {
      if (!failed && !context_.stopped) AcceptAll();
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

// The first of those that have sent a part of a request, since short ones come in one piece, or of
// all.
void HttpServer::Impl::TurnFirstAway() {
  if (waiting_.empty()) return;
  auto first = std::ranges::find_if(waiting_, [](const auto* one) { return one->receiving(); });
  if (first == waiting_.end()) first = waiting_.begin();
  Connection* const connection = *first;
  waiting_.erase(first);
  connection->TurnAway();
}

void HttpServer::Impl::Add(int socket, const std::string& address) {
  const HttpLimits& limits = context_.limits;
  const bool proxy = std::ranges::any_of(
      limits.proxies, [&](const AddressBlock& block) { return block.Has(address); });
  const std::string counted = NetworkOf(address);
  int& of_client = of_clients_[counted];
  int turned_away = 0;
  if (counted_ >= limits.connections) {
    turned_away = 503;
  } else if (!proxy && of_client >= OfOneClient(limits)) {
    turned_away = 429;
  }
  const auto connection = std::make_shared<Connection>(context_, socket, address, turned_away);
  all_[connection.get()] = {connection, counted};
  if (turned_away == 0) {
    ++of_client;
    ++counted_;
  } else {
    waiting_.push_back(connection.get());
    if (waiting_.size() > kReserve) TurnFirstAway();
  }
  connection->Begin();
}

void HttpServer::Impl::Ended(Connection& connection) {
  const auto place = all_.find(&connection);
  if (connection.turned_away() == 0) {
    --of_clients_[place->second.counted];
    --counted_;
  } else {
    std::erase(waiting_, &connection);
  }
  const auto of_client = of_clients_.find(place->second.counted);
  if (of_client != of_clients_.end() && of_client->second == 0) of_clients_.erase(of_client);
  all_.erase(place);
  if (all_.empty() && (context_.stopped || conversing_)) context_.io.stop();
}

void HttpServer::Impl::Run() {
  TakeShortTurns();  // and those of the context: what a model writes is sent while it computes
  context_.Begin();
  const auto work = asio::make_work_guard(context_.io);
  context_.io.restart();
  for (;;) {
    try {
      context_.io.run();
      break;
    } catch (const std::exception& error) {  // as where memory has ended
      LogWarning(fmt::format("error in the connection thread (continuing): {}", error.what()));
    }
  }
}

void HttpServer::Impl::Serve() {
  if (!context_.stopped) {
    asio::post(context_.io, [this] { Accept(); });
    Run();
  }
  error_code ignored;
  listening_.close(ignored);
}

void HttpServer::Impl::Converse(int socket) {
  conversing_ = true;
  asio::post(context_.io, [this, socket] { Add(socket, {}); });
  Run();
}

void HttpServer::Impl::Stop() {
  context_.stopped = true;
  asio::post(context_.io, [this] {
    error_code ignored;
    listening_.close(ignored);
    pause_.cancel(ignored);
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, place] : all_) all.push_back(place.connection);
    for (const auto& connection : all) connection->Stop();
    if (all_.empty()) context_.io.stop();
  });
}

HttpServer::HttpServer(Handler handler, const HttpLimits& limits, Refused refused)
    : impl_(std::make_unique<Impl>(std::move(handler), limits, std::move(refused))) {}

HttpServer::~HttpServer() = default;

int HttpServer::Bind(const std::string& host, int port) {
  return impl_->Bind(host, port);
}

void HttpServer::Serve() {
  impl_->Serve();
}

void HttpServer::Converse(int socket) {
  impl_->Converse(socket);
}

void HttpServer::Stop() {
  impl_->Stop();
}

int HttpServer::connections() const {
  return impl_->connections();
}

}  // namespace folio
