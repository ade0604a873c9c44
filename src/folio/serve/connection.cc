#include "folio/serve/connection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <mutex>

#include "folio/base/clock.h"
#include "folio/base/log.h"
#include "folio/serve/access.h"

namespace folio {

void ServerContext::Handle(const std::string& client, std::function<void()> call) {
  Calls& calls = calls_[client];
  if (calls.running >= std::max(limits.threads / 2, 1)) {
    return calls.waiting.push_back(std::move(call));
  }
  boost::asio::post(*handlers, std::move(call));
  ++calls.running;
}

void ServerContext::Handled(const std::string& client) {
  Calls& calls = calls_.at(client);
  if (calls.waiting.empty()) {
    if (--calls.running == 0) calls_.erase(client);
    return;
  }
  PostTo(*handlers, calls.waiting.front());
  calls.waiting.pop_front();
}

// Connects a stream with its connection: asks the stream for parts on a thread of the server, while
// it has news and the client takes the parts before, and hands them to the connection's thread.
class StreamPump : public std::enable_shared_from_this<StreamPump> {
 public:
  // Called by the connections' thread with each part, in their order. `last`: the stream is
  // destroyed; there is no part where it failed or was stopped.
  using Take = std::function<void(HttpStream::Part* part, bool last)>;

  // `chunked`: parts become chunks.
  StreamPump(ServerContext& context, std::shared_ptr<HttpStream> stream, bool chunked, Take take);

  void Begin();
  // Tells, from any thread, that the stream has news.
  void News();
  // Sets how many bytes of the parts that were taken are not sent yet.
  void Unsent(size_t bytes);
  // Ends the stream.
  void Stop();

 private:
  template <class Call>
  void Guarded(const Call& call);
  template <class Call>
  void Post(const Call& call);
  void Run();
  bool Full() const;
  void HandOn(HttpStream::Part part, bool any, bool last);

  ServerContext& context_;
  const bool quick_, chunked_;
  std::shared_ptr<HttpStream> stream_;
  const Take take_;
  bool failed_ = false;
  double due_ = 0;  // when the connection asks without news
  std::mutex mutex_;
  bool running_ = true, news_ = false, stopped_ = false;
  size_t bytes_on_the_way_ = 0, unsent_ = 0;
};

namespace {

std::string_view PhraseOf(int status) {
  namespace http = boost::beast::http;
  if (http::int_to_status(static_cast<unsigned>(status)) == http::status::unknown) return "Error";
  const auto phrase = http::obsolete_reason(static_cast<http::status>(status));
  return {phrase.data(), phrase.size()};
}

// Returns true if an answer of this status may have a body.
bool HasBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

// The head of an answer, up to its empty line. `length`: of its body, where that is known; else it
// comes in chunks or, for HTTP/1.0, until the connection ends.
std::string ResponseHead(const HttpReply& reply, std::optional<size_t> length, bool chunked,
                         bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %T} GMT\r\n", reply.status,
                                 PhraseOf(reply.status), fmt::gmtime(std::time(nullptr)));
  const auto add = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ");
    // A value that came from elsewhere begins no line of its own.
    for (const char c : value) head += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    head += "\r\n";
  };
  for (const auto& [name, value] : reply.headers) add(name, value);
  if (HasBody(reply.status)) {
    if (length != 0 || reply.status == 200) add("Content-Type", reply.type);
    if (length) add("Content-Length", std::to_string(*length));
    if (chunked) add("Transfer-Encoding", "chunked");
  }
  if (!keep_alive) add("Connection", "close");
  return head + "\r\n";
}

constexpr size_t kMostUnsent = 256 << 10;  // bytes that the client has not taken

}  // namespace

StreamPump::StreamPump(ServerContext& context, std::shared_ptr<HttpStream> stream, bool chunked,
                       Take take)
    : context_(context),
      quick_(stream->quick()),
      chunked_(chunked),
      stream_(std::move(stream)),
      take_(std::move(take)) {}

template <class Call>
void StreamPump::Post(const Call& call) {
  PostTo(quick_ ? *context_.writers : *context_.handlers, call);
}

void StreamPump::Begin() {
  Post([self = shared_from_this()] {
    // The callback may live longer than the answer.
    self->Guarded([&] {
      self->stream_->Begin([weak = std::weak_ptr(self)] {
        if (const auto pump = weak.lock()) pump->News();
      });
    });
    self->Run();
  });
}

void StreamPump::News() {
  {
    const std::lock_guard lock(mutex_);
    news_ = true;
    if (running_ || Full()) return;
    running_ = true;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

void StreamPump::Unsent(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    unsent_ = bytes;
    if (running_ || !news_ || Full()) return;
    running_ = true;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

void StreamPump::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (std::exchange(running_, true)) return;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

template <class Call>
void StreamPump::Guarded(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    LogWarning(fmt::format("an answer failed while it was sent: {}", error.what()));
    failed_ = true;
  }
}

bool StreamPump::Full() const {
  return bytes_on_the_way_ + unsent_ > kMostUnsent;
}

// `running_` is set, so that no other thread does this.
void StreamPump::Run() {
  {
    const std::lock_guard lock(mutex_);
    news_ = false;
    failed_ = failed_ || stopped_;
  }
  HttpStream::Part part;
  if (!failed_) {
    Guarded([&] {
      part = stream_->Next();
      if (chunked_ && !part.bytes.empty()) {
        part.bytes = fmt::format("{:x}\r\n", part.bytes.size()).append(part.bytes) + "\r\n";
      }
      if (chunked_ && part.ended) part.bytes += "0\r\n\r\n";
    });
  }
  const bool last = failed_ || part.ended || part.whole;
  if (last) stream_.reset();
  const double now = SteadySeconds(), due = now + part.seconds;
  constexpr double kNear = 0.01;  // seconds
  const bool asked_later = due < due_ - kNear || due_ <= now;
  if (asked_later) due_ = due;
  if (last || asked_later || !part.bytes.empty()) HandOn(std::move(part), !failed_, last);
  if (last) return;  // `running_` stays set
  {
    const std::lock_guard lock(mutex_);
    running_ = stopped_ || (news_ && !Full());
    if (!running_) return;
  }
  Post([self = shared_from_this()] { self->Run(); });
}

void StreamPump::HandOn(HttpStream::Part part, bool any, bool last) {
  const size_t bytes = part.bytes.size();
  {
    const std::lock_guard lock(mutex_);
    bytes_on_the_way_ += bytes;
  }
  const auto on_its_way = std::make_shared<HttpStream::Part>(std::move(part));
  PostTo(context_.io, [self = shared_from_this(), on_its_way, bytes, any, last] {
    {
      const std::lock_guard lock(self->mutex_);
      self->bytes_on_the_way_ -= bytes;
      self->unsent_ += bytes;
    }
    self->take_(any ? on_its_way.get() : nullptr, last);
  });
}

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kMostAhead = 16 << 10;  // bytes of requests that wait for an answer to another
constexpr size_t kSlice = 64 << 10;      // bytes of an answer that have a deadline of their own
constexpr size_t kSmall = 8 << 10;       // bytes that are sent with their neighbours
constexpr size_t kMostDrained = 256 << 10;
constexpr double kDrainSeconds = 1;
constexpr int kMostDraining = 512;  // connections

// Returns the handler's reply to a request, or a 500; never throws.
HttpReply Handled(const HttpServer::Handler& handler, HttpRequest request) {
  const std::string asked = fmt::format("{} {}", request.method, request.path);
  try {
    return handler(std::move(request));
  } catch (const std::exception& error) {
    LogWarning(fmt::format("{}: {}", asked, error.what()));
  } catch (...) {
    LogWarning(fmt::format("{}: failed", asked));
  }
  return ApiError(500, "the request failed; see the log of the service").reply();
}

}  // namespace

template <class Call>
void Connection::Safely(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    LogWarning(fmt::format("closing a connection from {}: {}", address_, error.what()));
    Close();
  }
}

Connection::Alarm::Alarm(Connection& owner, void (Connection::*what)())
    : connection(owner), call(what), timer(owner.context_.io) {}

void Connection::Alarm::Set(double seconds) {
  constexpr double kForever = 1e8;
  at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(std::min(seconds, kForever)));
  if (at < waits) Wait();
}

void Connection::Alarm::Wait() {
  waits = at;
  timer.expires_at(at);
  timer.async_wait([self = connection.shared_from_this(), this](error_code error) {
    if (error) return;
    waits = Clock::time_point::max();
    if (at == waits || self->state_ == State::kClosed) return;
    if (Clock::now() < at) return Wait();
    Off();
    self->Safely([&] { (self.get()->*call)(); });
  });
}

Connection::Connection(ServerContext& context, int socket, std::string address, int turned_away)
    : context_(context),
      address_(std::move(address)),
      turned_away_(turned_away),
      socket_(context.io),
      deadline_(*this, &Connection::Late),
      wake_(*this, &Connection::AskStream) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  const int on = 1;  // a token is sent when it comes
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  error_code failed;
  if (socket_.assign({name.ss_family, 0}, socket, failed)) {
    ::close(socket);
  } else {
    socket_.non_blocking(true, failed);
  }
}

Connection::~Connection() = default;

void Connection::Begin() {
  if (!socket_.is_open()) return Close();
  deadline_.Set(context_.limits.idle_seconds);
  Read();
}

// Waits for bytes, or for the client to hang up.
void Connection::Read() {
  const bool full = state_ == State::kAnswering && in_.size() >= kMostAhead;
  if (reading_ || eof_ || full || state_ == State::kClosed) return;
  reading_ = true;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](error_code error) {
    self->reading_ = false;
    if (!error && self->state_ != State::kClosed) self->Safely([&] { self->Receive(); });
  });
}

void Connection::Receive() {
  error_code error;
  const size_t count = socket_.read_some(asio::buffer(context_.received), error);
  if (error == asio::error::would_block) return Read();
  eof_ = bool(error);
  if (state_ == State::kDraining) {
    drained_ += count;
    return eof_ || drained_ > kMostDrained ? Close() : Read();
  }
  in_.append(context_.received.data(), count);
  if (state_ != State::kAnswering) return Step();
  if (eof_) return Gone(/*broken=*/error != asio::error::eof);
  Read();
}

// Takes what has come of requests.
void Connection::Step() {
  if (in_.empty()) return eof_ || (context_.stopped && idle()) ? Close() : Read();
  if (state_ == State::kIdle) {
    state_ = State::kReceiving;
    reader_ =
        std::make_unique<RequestReader>(context_.limits.head_bytes, context_.limits.body_bytes);
    told_to_continue_ = false;
    begun_ = Clock::now();
    deadline_.Set(std::min(context_.limits.head_seconds, context_.limits.receive_seconds));
  }
  const RequestReader::State state = reader_->Take(in_);
  if (state == RequestReader::State::kRefused) return Refuse(reader_->status(), reader_->reason());
  if (!ReserveBody()) return;
  if (state == RequestReader::State::kRequest) return Handle();
  if (eof_) return Close();  // in the middle of it
  if (state == RequestReader::State::kBody) {
    if (turned_away_ != 0) return NoRoom();
    const std::chrono::duration<double> since = Clock::now() - begun_;
    deadline_.Set(std::max(context_.limits.receive_seconds - since.count(), 0.0));
#ifdef TCP_QUICKACK
    const int on = 1;  // a client that sends a head and then its body may wait for word of the head
    setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
#endif
    if (reader_->expects_continue() && !std::exchange(told_to_continue_, true)) {
      Push("HTTP/1.1 100 Continue\r\n\r\n");
      Flush();
    }
  }
  Read();
}

// Reserves memory for the part of a body that has come. Refuses the request and returns false where
// none is left.
bool Connection::ReserveBody() {
  constexpr size_t kStep = 64 << 10;  // so that it is asked for seldom; less than that is free
  const auto wanted = static_cast<int64_t>(reader_->body_bytes() / kStep * kStep);
  if (context_.limits.memory == nullptr || wanted <= body_memory_.bytes()) return true;
  try {
    if (body_memory_.bytes() == 0) body_memory_ = MemoryBudget::Share(context_.limits.memory, 0);
    body_memory_.Resize(wanted);
    return true;
  } catch (const ApiError& error) {
    Refuse(error.status(), error.what());
    return false;
  }
}

void Connection::Handle() {
  auto [request, http_1_1, keep_alive] = reader_->TakeRequest();
  const bool at_once = std::ranges::count(context_.limits.at_once, request.path) > 0;
  if (turned_away_ != 0 && !at_once) return NoRoom();
  http_1_1_ = http_1_1;
  keep_alive_ = keep_alive && ++requests_ < context_.limits.requests && turned_away_ == 0;
  head_only_ = request.method == "HEAD";
  reader_.reset();
  state_ = State::kAnswering;
  deadline_.Off();
  gone_ = std::make_shared<std::atomic<bool>>(false);
  request.client = address_;
  request.gone = [gone = gone_] { return gone->load(); };
  request.stopping = [&stopped = context_.stopped] { return stopped.load(); };
  if (at_once) {
    body_memory_ = {};
    return Answer(Handled(context_.handler, std::move(request)));
  }
  const auto asked = std::make_shared<HttpRequest>(std::move(request));
  const auto body = std::make_shared<MemoryBudget::Share>(std::exchange(body_memory_, {}));
  const auto reply = std::make_shared<HttpReply>();
  const std::string client =
      NetworkOf(ClientAddress(context_.limits.proxies, address_, asked->header("X-Forwarded-For")));
  context_.Handle(client, [self = shared_from_this(), client, asked, body, reply] {
    *body = {};  // from here on the handler counts
    *reply = Handled(self->context_.handler, std::move(*asked));
    PostTo(self->context_.io, [self, client, reply] {
      self->context_.Handled(client);
      self->handling_ = false;
      self->Safely([&] { self->Answer(std::move(*reply)); });
      self->EndIfOver();
    });
  });
  handling_ = true;
  if (eof_) return Gone(/*broken=*/false);
  Read();
}

void Connection::Answer(HttpReply reply) {
  const std::shared_ptr<HttpStream> stream = std::move(reply.stream);
  const bool wanted = state_ != State::kClosed && !(stream != nullptr && eof_);
  answer_whole_ = stream == nullptr || head_only_ || !wanted;
  streamed_ = {};
  if (!answer_whole_) {
    streamed_ = std::move(reply);
    if (!streamed_.waits) SendHead(streamed_, {});
    pump_ = std::make_shared<StreamPump>(
        context_, stream, !streamed_.waits && chunked_,
        [self = shared_from_this()](HttpStream::Part* part, bool last) {
          self->Safely([&] { self->TakePart(part, last); });
        });
    Flush();
    // The pump begins only now, as what the stream says goes behind the head.
    if (pump_ != nullptr) pump_->Begin();
    return;
  }
  if (reply.ended) reply.ended(wanted ? reply.status : 499);
  if (!wanted) return Close();
  if (stream != nullptr) {
    SendHead(reply, {});
  } else {
    SendHead(reply, reply.body.size());
    held_ = std::move(reply.held);
    if (!head_only_ && HasBody(reply.status)) Push(std::move(reply.body));
  }
  Flush();
}

void Connection::SendHead(const HttpReply& reply, std::optional<size_t> length) {
  if (context_.stopped || (eof_ && in_.empty())) keep_alive_ = false;
  chunked_ = !length && http_1_1_;
  if (!length && !http_1_1_) keep_alive_ = false;  // the body ends with the connection
  Push(ResponseHead(reply, length, chunked_, keep_alive_));
}

// Answers a request that never reaches the handler.
void Connection::Refuse(int status, const std::string& reason) {
  body_memory_ = {};
  state_ = State::kAnswering;
  deadline_.Off();
  keep_alive_ = head_only_ = false;
  in_.clear();
  HttpReply reply = ApiError(status, reason).reply();
  const std::string id = context_.refused ? context_.refused(address_, status, reason) : "";
  if (!id.empty()) reply.headers.emplace_back("X-Request-Id", id);
  reader_.reset();  // which may have said the reason
  Answer(std::move(reply));
}

// Bytes that have come meanwhile may be a request that is answered at once.
void Connection::TurnAway() {
  if (state_ != State::kIdle && state_ != State::kReceiving) return;
  Receive();
  NoRoom();
}

void Connection::NoRoom() {
  const char* why = turned_away_ == 429 ? "too many connections from this client; try again later"
                                        : "too many connections; try again later";
  if (state_ == State::kReceiving) return Refuse(turned_away_, why);
  if (state_ != State::kIdle) return;
  // It has said nothing, so that there is nothing to be logged.
  state_ = State::kAnswering;
  keep_alive_ = false;
  Answer(ApiError(turned_away_, why).reply());
}

void Connection::Push(std::string bytes) {
  if (bytes.empty() || state_ == State::kClosed) return;
  out_bytes_ += bytes.size();
  if (!out_.empty() && out_.back().size() + bytes.size() <= kSmall) {
    out_.back() += bytes;
  } else {
    out_.push_back(std::move(bytes));
  }
}

// Sends what the client takes, and goes on when it takes more.
void Connection::Flush() {
  if (writing_ || state_ == State::kClosed) return;
  while (!out_.empty()) {
    const std::string& first = out_.front();
    error_code error;
    const size_t count =
        socket_.write_some(asio::buffer(first.data() + sent_, first.size() - sent_), error);
    if (error == asio::error::would_block) {
      if (state_ == State::kAnswering && (!std::exchange(slow_, true) || taken_ >= kSlice)) {
        taken_ = 0;
        deadline_.Set(context_.limits.send_seconds);
      }
      writing_ = true;
      socket_.async_wait(asio::socket_base::wait_write,
                         [self = shared_from_this()](error_code failed) {
                           self->writing_ = false;
                           if (!failed) self->Safely([&] { self->Flush(); });
                         });
      break;
    }
    if (error) {
      eof_ = true;
      return Gone(/*broken=*/true);
    }
    out_bytes_ -= count;
    taken_ += count;
    sent_ += count;
    if (sent_ == first.size()) {
      out_.pop_front();
      sent_ = 0;
    }
  }
  if (pump_ != nullptr) pump_->Unsent(out_bytes_);
  if (!out_.empty() || state_ != State::kAnswering) return;
  if (std::exchange(slow_, false)) deadline_.Off();
  if (answer_whole_ && pump_ == nullptr) Answered();
}

void Connection::Answered() {
  gone_.reset();
  held_.reset();
  if (!keep_alive_ || context_.stopped) return Drain();
  state_ = State::kIdle;
  answer_whole_ = false;
  deadline_.Set(context_.limits.idle_seconds);
  if (in_.empty() && !eof_) return Read();
  // Bytes that have come already are handled next; not from here, as the step may have called this.
  asio::post(context_.io, [self = shared_from_this()] {
    if (self->idle()) self->Safely([&] { self->Step(); });
  });
}

// Nothing more is answered. Bytes that the client sends are read for a while: else the kernel would
// take back what was sent to it.
void Connection::Drain() {
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  in_.clear();
  if (eof_ || context_.draining >= kMostDraining) {
    while (!eof_ && socket_.read_some(asio::buffer(context_.received), ignored) > 0 && !ignored) {
      drained_ += context_.received.size();
      if (drained_ > kMostDrained) break;
    }
    return Close();
  }
  state_ = State::kDraining;
  ++context_.draining;
  deadline_.Set(kDrainSeconds);
  Read();
}

// The deadline has passed.
void Connection::Late() {
  if (state_ == State::kReceiving && reader_->begun()) {
    return Refuse(408, "timeout while waiting for the request");
  }
  if (state_ == State::kAnswering) return Gone(/*broken=*/true);
  Close();
}

// The client has hung up, or at least closed its end. An answer that is there is sent all the same.
void Connection::Gone(bool broken) {
  if (gone_ != nullptr) *gone_ = true;
  if (broken || pump_ != nullptr) Close();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  if (gone_ != nullptr) *gone_ = true;
  if (state_ == State::kDraining) --context_.draining;
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  deadline_.timer.cancel(ignored);
  wake_.timer.cancel(ignored);
  in_ = {};
  out_.clear();
  held_.reset();
  body_memory_ = {};
  reader_.reset();
  if (pump_ != nullptr) pump_->Stop();
  EndIfOver();
}

// Calls `ended` once no other thread uses the connection.
void Connection::EndIfOver() {
  if (state_ != State::kClosed || handling_ || pump_ != nullptr || std::exchange(over_, true)) {
    return;
  }
  const auto self = shared_from_this();
  context_.ended(*this);
}

void Connection::Stop() {
  if (state_ == State::kIdle && in_.empty()) return Close();
  AskStream();
}

void Connection::AskStream() {
  if (pump_ != nullptr) pump_->News();
}

void Connection::StreamEnded(int status) {
  answer_whole_ = true;
  if (const auto ended = std::exchange(streamed_.ended, {})) ended(status);
}

void Connection::TakePart(HttpStream::Part* part, bool last) {
  if (part != nullptr && state_ != State::kClosed) PushPart(std::move(*part));
  if (last) StreamOver();
  Flush();
}

void Connection::PushPart(HttpStream::Part part) {
  if (part.whole) {
    HttpReply& whole = *part.whole;
    whole.headers.insert(whole.headers.end(), streamed_.headers.begin(), streamed_.headers.end());
    StreamEnded(whole.status);
    SendHead(whole, whole.body.size());
    held_ = std::move(whole.held);
    return Push(std::move(whole.body));
  }
  if (part.ended) {
    StreamEnded(streamed_.status);
  } else {
    wake_.Set(part.seconds);
  }
  Push(std::move(part.bytes));
}

// Handles the end of the stream, which is destroyed.
void Connection::StreamOver() {
  pump_.reset();
  wake_.Off();
  if (!answer_whole_ && streamed_.waits && state_ != State::kClosed) {
    StreamEnded(500);
    return Answer(ApiError(500, "the request failed; see the log of the service").reply());
  }
  if (!answer_whole_) {
    StreamEnded(streamed_.waits ? 499 : streamed_.status);
    Close();
  }
  EndIfOver();
}

}  // namespace folio
