#pragma once

#include <array>
#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "folio/serve/http.h"
#include "folio/serve/http_server.h"
#include "folio/serve/request_reader.h"

namespace folio {

class Connection;

// ServerContext holds the state that the connections of a server share. It belongs to the thread
// that runs `io`, unless a member says otherwise.
struct ServerContext {
  ServerContext(HttpServer::Handler asked, const HttpLimits& given, HttpServer::Refused heard)
      : handler(std::move(asked)), refused(std::move(heard)), limits(given) {}

  // Starts the threads, unless they run. Not to be called before the service answers: until then
  // the process may give up privileges, which each thread would have to do for itself.
  void Begin() {
    constexpr size_t kWriters = 2;
    if (handlers) return;
    handlers.emplace(static_cast<size_t>(limits.threads));
    writers.emplace(kWriters);
  }

  // Runs a call for a client on one of `handlers`. A client has at most half of these threads; its
  // other calls wait. Handled ends the call.
  void Handle(const std::string& client, std::function<void()> call);
  void Handled(const std::string& client);

  const HttpServer::Handler handler;
  const HttpServer::Refused refused;
  const HttpLimits limits;
  boost::asio::io_context io{1};
  std::atomic<bool> stopped = false;  // of any thread
  std::array<char, 64 << 10> received;
  int draining = 0;  // connections that only wait for their clients to close
  std::function<void(Connection&)> ended;
  std::optional<boost::asio::thread_pool> handlers, writers;  // `writers` make what streams send

 private:
  struct Calls {
    int running = 0;
    std::deque<std::function<void()>> waiting = {};
  };
  std::map<std::string, Calls> calls_;  // by client
};

// Posts a call to a thread of a context. Tries again while memory is short, since a thread of a
// pool cannot report that.
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

class StreamPump;

// The client of one socket: its requests, one after the other, and their answers.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Owns the socket. `turned_away`: the status of all answers but those that are made at once; 0
  // for a connection that is served.
  Connection(ServerContext& context, int socket, std::string address, int turned_away);
  ~Connection();

  void Begin();
  // Answers that there is no room, unless an answer is on its way.
  void TurnAway();
  // Ends the connection or its stream, since the server is about to end.
  void Stop();

  int turned_away() const { return turned_away_; }
  // Returns true between two requests.
  bool idle() const { return state_ == State::kIdle; }
  // Returns true where a part of a request has come.
  bool receiving() const { return state_ == State::kReceiving; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State {
    kIdle,       // between requests
    kReceiving,  // one
    kAnswering,  // one, until its handler has answered and all of that is sent
    kDraining,   // nothing more is answered; waits for the client to close
    kClosed,
  };

  // Calls a member function after a time. The timer itself is seldom set again: when it goes off it
  // checks whether the time was moved.
  struct Alarm {
    Alarm(Connection& owner, void (Connection::*what)());
    void Set(double seconds);
    void Off() { at = Clock::time_point::max(); }
    void Wait();

    Connection& connection;
    void (Connection::*call)();
    boost::asio::steady_timer timer;
    Clock::time_point at = Clock::time_point::max(), waits = at;
  };

  // Runs the body of a callback. An exception of it, as for want of memory, ends this connection
  // alone.
  template <class Call>
  void Safely(const Call& call);

  void Read();
  void Receive();
  void Step();
  bool ReserveBody();
  void Handle();
  void Answer(HttpReply reply);
  void SendHead(const HttpReply& reply, std::optional<size_t> length);
  void Refuse(int status, const std::string& reason);
  void NoRoom();
  void Push(std::string bytes);
  void Flush();
  void Answered();
  void Drain();
  void Late();
  void Gone(bool broken);
  void Close();
  void EndIfOver();

  // These take the parts of an answer's stream.
  void TakePart(HttpStream::Part* part, bool last);
  void PushPart(HttpStream::Part part);
  void StreamOver();
  void StreamEnded(int status);
  void AskStream();

  ServerContext& context_;
  const std::string address_;
  const int turned_away_;
  boost::asio::generic::stream_protocol::socket socket_;
  State state_ = State::kIdle;
  bool reading_ = false, writing_ = false, eof_ = false, over_ = false;

  std::string in_;  // has come, and was not taken
  std::unique_ptr<RequestReader> reader_;
  bool told_to_continue_ = false;
  Clock::time_point begun_;  // when the request's first byte came
  int requests_ = 0;
  MemoryBudget::Share body_memory_;

  // The members from here on are of the request that is answered.
  std::shared_ptr<std::atomic<bool>> gone_;
  bool handling_ = false;  // the handler runs
  bool keep_alive_ = false, http_1_1_ = true, head_only_ = false, chunked_ = false;
  bool answer_whole_ = false;  // nothing more will be pushed
  HttpReply streamed_;         // what is not the stream itself
  std::shared_ptr<StreamPump> pump_;
  std::shared_ptr<void> held_;  // of the answer, until it was sent

  std::deque<std::string> out_;
  size_t out_bytes_ = 0;  // of all of it
  size_t sent_ = 0;       // of its first
  bool slow_ = false;     // the client takes less than there is
  size_t taken_ = 0;      // bytes, since the deadline of a slow client was set
  size_t drained_ = 0;

  Alarm deadline_, wake_;
};

}  // namespace folio
