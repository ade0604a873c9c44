#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "folio/serve/http_server.h"

namespace folio {

class Connection;

// ServerContext holds what the connections of a server share. All of it is of the thread that runs
// `io`, but for what says otherwise.
struct ServerContext {
  ServerContext(HttpServer::Handler asked, const HttpLimits& given, HttpServer::Refused heard)
      : handler(std::move(asked)), refused(std::move(heard)), limits(given) {}

  // Begins the threads, unless they are there. Not before the service answers: until then the
  // process may give up what they need not have, each thread for itself.
  void Begin() {
    constexpr size_t kWriters = 2;
    if (handlers) return;
    handlers.emplace(static_cast<size_t>(limits.threads));
    writers.emplace(kWriters);
  }

  const HttpServer::Handler handler;
  const HttpServer::Refused refused;
  const HttpLimits limits;
  boost::asio::io_context io{1};
  std::atomic<bool> stopped = false;  // of any thread
  std::array<char, 64 << 10> received;
  int draining = 0;  // connections that only wait for their clients to close
  std::function<void(Connection&)> ended;
  std::optional<boost::asio::thread_pool> handlers, writers;  // `writers` make what streams send
};

// Has a thread of a context make a call. Where memory has ended it is tried again: a thread of a
// pool has nobody to tell.
template <class Context, class Call>
void PostTo(Context& context, const Call& call) {
  for (;;) {
    try {
      return boost::asio::post(context, call);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace folio
