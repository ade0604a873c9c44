#include "folio/serve/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/serve/connection.h"

namespace folio {
namespace {

// The connection that this thread talks on, and which encodings its client takes, of which the
// library must not know: it would compress by itself, however long that takes.
thread_local Connection* current = nullptr;
thread_local std::string accepted_encodings;
constexpr char kAcceptEncoding[] = "Accept-Encoding";

HttpReply Answer(const HttpServer::Handler& handler, const std::atomic<bool>& stopped,
                 const httplib::Request& request, std::string body) {
  const HttpRequest asked{
      .method = request.method,
      .path = request.path,
      .body = std::move(body),
      .client = current->address(),
      .header =
          [&](const std::string& name) {
            return strcasecmp(name.c_str(), kAcceptEncoding) == 0 ? accepted_encodings
                                                                  : request.get_header_value(name);
          },
      .parameter = [&](const std::string& name) { return request.get_param_value(name); },
      .gone = [] { return current->gone(); },
      .stopping = [&stopped] { return stopped.load(); }};
  return handler(asked);
}

void Put(HttpReply reply, const httplib::Request& request, httplib::Response& response) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  if (!reply.stream) {
    // By a provider: the library compresses what is given otherwise, however long that takes.
    const auto body = std::make_shared<std::string>(std::move(reply.body));
    if (body->empty()) return response.set_content("", reply.type);
    return response.set_content_provider(
        body->size(), reply.type, [body](size_t offset, size_t length, httplib::DataSink& sink) {
          return sink.write(body->data() + offset, length);
        });
  }
  const auto pieces = [stream = std::move(reply.stream)](size_t, httplib::DataSink& sink) {
    bool whole = true;
    stream([&](std::string_view piece) {
      whole = whole && (piece.empty() || sink.write(piece.data(), piece.size()));
      return whole;
    });
    if (whole) sink.done();
    return whole;
  };
  if (request.version == "HTTP/1.0") {
    response.set_content_provider(reply.type, pieces);  // ends with the connection
  } else {
    response.set_chunked_content_provider(reply.type, pieces);
  }
}

}  // namespace

// The protocol: the library's, on our connections.
class HttpServer::Protocol final : public httplib::Server {
 public:
  Protocol(const HttpServer::Handler& handler, const HttpLimits& limits,
           const std::atomic<bool>& stopped)
      : handler_(handler), limits_(limits), stopped_(stopped) {
    svr_sock_ = 0;  // that there is one: without, the library sends no bodies
    set_payload_max_length(limits.body_bytes);
    const Handler without_body = [this](const httplib::Request& request,
                                        httplib::Response& response) {
      Put(Answer(handler_, stopped_, request, ""), request, response);
    };
    const HandlerWithContentReader with_body = [this](const httplib::Request& request,
                                                      httplib::Response& response,
                                                      const httplib::ContentReader& read) {
      std::string body;
      const bool whole = !request.is_multipart_form_data() && read([&](const char* data, size_t n) {
        if (body.size() + n > limits_.body_bytes) return false;
        body.append(data, n);
        return true;
      });
      if (!whole) {
        response.status = request.is_multipart_form_data() ? 415 : 413;
        return;
      }
      Put(Answer(handler_, stopped_, request, std::move(body)), request, response);
    };
    Get(".*", without_body);
    Options(".*", without_body);
    Post(".*", with_body);
    Put_(with_body);
    set_exception_handler([](const httplib::Request& request, httplib::Response& response,
                             const std::exception_ptr& thrown) {
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& error) {
        LogWarning(fmt::format("{} {}: {}", request.method, request.path, error.what()));
      } catch (...) {
        LogWarning(fmt::format("{} {}: failed", request.method, request.path));
      }
      response.status = 500;
    });
    // What the library itself refuses.
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty() || response.content_length_ > 0) return;
      response.set_content(
          fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":null}}}})",
                      Refusal(response.status),
                      response.status < 500 ? "invalid_request_error" : "server_error"),
          "application/json");
    });
  }

  // One request; false if the connection is to end. `last`: so it is said.
  bool Talk(Connection& connection, bool last) {
    bool closed = false;
    const bool whole = process_request(connection, last, closed, [&](httplib::Request& request) {
      connection.HeadRead();
      // Else the library would wait for the connection to end.
      if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
        request.set_header("Content-Length", "0");
      }
      request.ranges.clear();  // nothing that we send has parts
      accepted_encodings = request.get_header_value(kAcceptEncoding);
      request.headers.erase(kAcceptEncoding);
    });
    return whole && !closed;
  }

 private:
  void Put_(const HandlerWithContentReader& handler) {
    Put(".*", handler);
    Patch(".*", handler);
    Delete(".*", handler);
  }
  using httplib::Server::Put;
  static void Put(HttpReply reply, const httplib::Request& request, httplib::Response& response) {
    folio::Put(std::move(reply), request, response);
  }
  static const char* Refusal(int status) {
    switch (status) {
      case 400:
        return "the request is not HTTP that can be read";
      case 404:
        return "there is nothing here";
      case 413:
        return "the request is too large";
      case 414:
        return "the address is too long";
      case 415:
        return "the body must be JSON";
      case 500:
        return "the request failed; the log says why";
      default:
        return "the request cannot be answered";
    }
  }

  const HttpServer::Handler& handler_;
  HttpLimits limits_;
  const std::atomic<bool>& stopped_;
};

class HttpServer::Impl {
 public:
  Impl(Handler handler, const HttpLimits& limits)
      : handler_(std::move(handler)), limits_(limits), protocol_(handler_, limits, stopped_) {}
  ~Impl() {
    if (socket_ >= 0) close(socket_);
  }

  int Bind(const std::string& host, int port);
  void Serve();
  void Converse(int socket);
  void Stop() { stopped_ = true; }
  int connections() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(
        std::ranges::count_if(talks_, [](const Talk& talk) { return !talk.ended; }));
  }

 private:
  // A connection's thread, and whether it has ended.
  struct Talk {
    std::thread thread;
    bool ended = false;
  };
  void Accept(int socket);
  // Joins those that have ended.
  void Reap();

  Handler handler_;
  HttpLimits limits_;
  std::atomic<bool> stopped_ = false;
  Protocol protocol_;
  int socket_ = -1;
  mutable std::mutex mutex_;
  std::list<Talk> talks_;
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
    throw UsageError(
        fmt::format("--host: '{}' is no address", host),
        "expected localhost or a numeric address of this machine",
        "--host 127.0.0.1 for this machine alone, --host 0.0.0.0 for all that reach it");
  }
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  const auto fail = [&](int error) {
    throw RuntimeError(fmt::format("cannot listen at {}, port {}", host, port),
                       std::system_category().message(error),
                       "name another with --port; 0 takes one that is free");
  };
  socket_ = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail(errno);
  const int on = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket_, address, size) != 0 || listen(socket_, SOMAXCONN) != 0) fail(errno);
  getsockname(socket_, address, &size);
  return ntohs(storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void HttpServer::Impl::Serve() {
  constexpr int kLookMs = 100;  // how often a stop is looked for
  while (!stopped_) {
    pollfd wanted{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, kLookMs) <= 0) continue;
    const int client = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) {
      Accept(client);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // until others have ended
    }
  }
  close(std::exchange(socket_, -1));
  for (Talk& talk : talks_) talk.thread.join();  // nobody else adds or removes
  talks_.clear();
}

void HttpServer::Impl::Reap() {
  std::list<Talk> over;
  {
    const std::lock_guard lock(mutex_);
    for (auto talk = talks_.begin(); talk != talks_.end();) {
      const auto next = std::next(talk);
      if (talk->ended) over.splice(over.end(), talks_, talk);
      talk = next;
    }
  }
  for (Talk& talk : over) talk.thread.join();
}

void HttpServer::Impl::Accept(int client) {
  static constexpr std::string_view kFull =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
      "Connection: close\r\n\r\n"
      R"({"error":{"message":"too many connections","type":"server_error","param":null,"code":null}})";
  Reap();
  {
    const std::lock_guard lock(mutex_);
    if (std::ssize(talks_) < limits_.connections) {
      Talk& talk = talks_.emplace_back();
      try {
        talk.thread = std::thread([this, client, &talk] {
          Converse(client);
          const std::lock_guard over(mutex_);
          talk.ended = true;
        });
        return;
      } catch (const std::system_error&) {  // no more threads
        talks_.pop_back();
      }
    }
  }
  [[maybe_unused]] const ssize_t told =
      send(client, kFull.data(), kFull.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // What was not read would take back what was sent.
  std::array<char, 4096> unread;
  while (recv(client, unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
  }
  close(client);
}

void HttpServer::Impl::Converse(int socket) {
  constexpr int kMostRequests = 1000;  // of a connection, so that none is forever
  const auto stopped = [this] { return stopped_.load(); };
  Connection connection(socket, {.head_bytes = limits_.head_bytes,
                                 .body_bytes = limits_.body_bytes,
                                 .receive_seconds = limits_.receive_seconds,
                                 .send_seconds = limits_.send_seconds});
  current = &connection;
  for (int left = kMostRequests; left > 0; --left) {
    if (!connection.WaitForRequest(limits_.idle_seconds, stopped)) break;
    if (!protocol_.Talk(connection, /*last=*/left == 1 || stopped_)) break;
  }
  current = nullptr;
}

HttpServer::HttpServer(Handler handler, const HttpLimits& limits)
    : impl_(std::make_unique<Impl>(std::move(handler), limits)) {}

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
