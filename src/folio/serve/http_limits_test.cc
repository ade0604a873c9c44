#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/clock.h"
#include "folio/serve/http_server.h"
#include "folio/serve/test_raw_client.h"
#include "tests/kit/expect.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

using std::chrono::milliseconds;

constexpr char kHealth[] = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
constexpr char kOther[] = "GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

// Opens when it is told to.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    news_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    news_.wait(lock, [&] { return open_; });
  }
  int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  bool open_ = false;
  int waiting_ = 0;
};

class HttpLimited : public testing::Test {
 protected:
  void Serve(const HttpLimits& limits) {
    server_.emplace([this](const HttpRequest& request) { return Answer(request); }, limits);
    port_ = server_->port();
  }
  ~HttpLimited() override { gate_.Open(); }

  virtual HttpReply Answer(const HttpRequest& request) {
    if (request.path == "/slow") gate_.Wait();
    if (request.path == "/until-gone") {
      while (!request.gone()) std::this_thread::sleep_for(milliseconds(1));
      gone_ = true;
    }
    return {.body = request.path};
  }

  std::string Ask(const std::string& said, const char* from = "127.0.0.1",
                  double seconds = 5) const {
    const RawClient client(port_, from);
    client.Send(said);
    return client.Receive(seconds);
  }
  // Returns how long a health check takes; fails unless it is answered.
  double Health() const {
    const double begin = SteadySeconds();
    const std::string answer = Ask(kHealth);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    return SteadySeconds() - begin;
  }
  static bool Within(double seconds, const std::function<bool()>& is) {
    for (const double end = SteadySeconds() + seconds; !is();) {
      if (SteadySeconds() > end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  int port_ = 0;
  Gate gate_;
  std::atomic<bool> gone_ = false;
  std::optional<RunningServer> server_;
};

// A handler that takes long, for one client, leaves threads to others.
TEST_F(HttpLimited, OneClientCannotHaveAllThreads) {
  Serve({.threads = 4});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<RawClient>(port_, "127.0.10.1"));
    clients.back()->Send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  }
  ASSERT_TRUE(Within(5, [&] { return gate_.waiting() == 2; }));
  EXPECT_TRUE(Contains(Ask(kOther), "200 OK"));
  gate_.Open();
  for (const auto& client : clients) EXPECT_TRUE(Contains(client->Receive(), "200 OK"));
  EXPECT_EQ(gate_.waiting(), 6);
}

TEST_F(HttpLimited, HealthIsAnsweredWhenAllElseIsFull) {
  Serve({.connections = 8, .client_connections = 8, .threads = 2});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(port_, i % 2 == 0 ? "127.0.0.1" : "127.0.0.2"));
    clients.back()->Send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  ASSERT_TRUE(Within(5, [&] { return gate_.waiting() == 2 && server_->connections() == 8; }));
  for (int i = 0; i < 20; ++i) EXPECT_LT(Health(), 1);
  const std::string other = Ask(kOther);
  EXPECT_TRUE(Contains(other, "HTTP/1.1 503", "Retry-After: 1\r\n", "Connection: close\r\n",
                       "too many connections"))
      << other;
  gate_.Open();
  for (const auto& client : clients) {
    EXPECT_TRUE(client->Receive(5, 12).starts_with("HTTP/1.1 200"));
  }
}

TEST_F(HttpLimited, SlowClientsLeaveEveryHealthCheckAnAnswer) {
  Serve({.connections = 50,
         .client_connections = 50,
         .head_seconds = 2,
         .receive_seconds = 2,
         .idle_seconds = 2});
  std::atomic<bool> over = false;
  std::thread slow([&] {
    const std::string said = "GET /health HTTP/1.1\r\nX: " + std::string(400, 'x');
    std::vector<std::unique_ptr<RawClient>> clients(300);
    for (size_t at = 0; !over; at = (at + 1) % said.size()) {
      for (auto& client : clients) {
        if (client == nullptr || !client->Send(said.substr(at, 1))) {
          client = std::make_unique<RawClient>(port_);
        }
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  ASSERT_TRUE(Within(5, [&] { return server_->connections() == 50; }));
  for (int i = 0; i < 100; ++i) {
    EXPECT_LT(Health(), 2) << i;
    std::this_thread::sleep_for(milliseconds(10));
  }
  over = true;
  slow.join();
}

// Ten thousand, or as many as this process may have both ends of.
TEST_F(HttpLimited, IdleConnectionsCostLittle) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const int count = static_cast<int>(std::min<rlim_t>(10'000, (files.rlim_cur - 500) / 2));
  Serve({.connections = count, .client_connections = count, .idle_seconds = 60});
  const auto status = [](const std::string& key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(key + ":")) return std::stol(line.substr(key.size() + 1));
    }
    return 0L;
  };
  Health();
  [[maybe_unused]] const long before = status("VmRSS");
  const long threads = status("Threads");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<RawClient>(port_));
    ASSERT_TRUE(clients.back()->connected()) << i;
  }
  ASSERT_TRUE(Within(20, [&] { return server_->connections() == count; }));
  EXPECT_EQ(status("Threads"), threads);
#ifndef FOLIO_SANITIZE
  EXPECT_LT(static_cast<double>(status("VmRSS") - before) / count, 6) << "KiB each, both ends";
#endif
  std::vector<double> seconds;
  for (int i = 0; i < 50; ++i) seconds.push_back(Health());
  std::ranges::sort(seconds);
  EXPECT_LT(seconds[25], 0.1);
}

TEST_F(HttpLimited, OneClientCannotHaveAllConnections) {
  Serve({.connections = 20, .client_connections = 5, .proxies = {AddressBlock("127.0.0.9", "")}});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<RawClient>(port_, "127.0.0.2"));
  ASSERT_TRUE(Within(5, [&] { return server_->connections() == 5; }));
  const std::string told = Ask(kOther, "127.0.0.2");
  EXPECT_TRUE(Contains(told, "HTTP/1.1 429", "too many connections from this client")) << told;
  EXPECT_TRUE(Ask(kHealth, "127.0.0.2").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(Ask(kOther, "127.0.0.3").starts_with("HTTP/1.1 200"));
  // A proxy's connections are of many clients.
  for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<RawClient>(port_, "127.0.0.9"));
  EXPECT_TRUE(Ask(kOther, "127.0.0.9").starts_with("HTTP/1.1 200"));
  clients.clear();
  EXPECT_TRUE(Within(5, [&] { return server_->connections() == 0; }));
  EXPECT_TRUE(Ask(kOther, "127.0.0.2").starts_with("HTTP/1.1 200"));
}

// Bodies that come share a budget, and what they took is there again when they have been handled,
// were refused, or their clients are gone.
TEST_F(HttpLimited, BodiesThatComeTakeNoMoreMemoryThanThereIs) {
  const auto memory = std::make_shared<MemoryBudget>(int64_t{1} << 20);
  Serve({.memory = memory});
  const auto post = [](size_t length, size_t sent) {
    return "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(length) +
           "\r\n\r\n" + std::string(sent, 'a');
  };
  constexpr size_t kLarge = 700 << 10;
  EXPECT_TRUE(Ask(post(2 << 20, 2 << 20)).starts_with("HTTP/1.1 413"));
  {
    const RawClient half(port_);
    half.Send(post(kLarge + 1, kLarge));
    ASSERT_TRUE(Within(10, [&] { return memory->used() >= 640 << 10; })) << memory->used();
    const std::string other = Ask(post(kLarge, kLarge));
    EXPECT_TRUE(other.starts_with("HTTP/1.1 503")) << other;
    EXPECT_TRUE(Contains(other, "Retry-After: 1", "try again later")) << other;
    Health();
  }
  EXPECT_TRUE(Within(10, [&] { return memory->used() == 0; })) << memory->used();
  const RawClient whole(port_);
  whole.Send(post(kLarge, kLarge));
  EXPECT_TRUE(whole.Receive(1).starts_with("HTTP/1.1 200"));
  EXPECT_EQ(memory->used(), 0);
}

TEST_F(HttpLimited, EachDeadlineIsSaid) {
  Serve({.head_seconds = 0.3, .receive_seconds = 0.6, .idle_seconds = 0.2});
  const auto takes = [&](const std::string& said, const std::string& answer) {
    const double begin = SteadySeconds();
    const std::string got = Ask(said);
    EXPECT_EQ(got.substr(0, answer.size()), answer) << said;
    EXPECT_EQ(answer.empty(), got.empty()) << got;
    return SteadySeconds() - begin;
  };
  EXPECT_LT(takes("", ""), 2);  // idle: nobody is told
  EXPECT_LT(takes("\r\n", ""), 2);
  const double head = takes("GET /other HTTP/1.1\r\n", "HTTP/1.1 408");
  EXPECT_GE(head, 0.25);
  const double body =
      takes("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nx", "HTTP/1.1 408");
  EXPECT_GE(body, 0.5);
  EXPECT_LT(body, 2.5);
  // After an answer, too.
  const double begin = SteadySeconds();
  EXPECT_TRUE(Contains(Ask("GET /other HTTP/1.1\r\nHost: a\r\n\r\n"), "200 OK", "/other"));
  EXPECT_LT(SteadySeconds() - begin, 2);
}

TEST_F(HttpLimited, AConnectionHasSoManyRequests) {
  Serve({.requests = 3});
  std::string said;
  for (int i = 0; i < 5; ++i) said += "GET /other HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string answers = Ask(said);
  EXPECT_EQ(Count(answers, "HTTP/1.1 200"), 3u);
  EXPECT_EQ(Count(answers, "Connection: close"), 1u);
}

TEST_F(HttpLimited, AHandlerLearnsThatItsClientHasHungUp) {
  Serve({});
  {
    const RawClient client(port_);
    client.Send("GET /until-gone HTTP/1.1\r\nHost: a\r\n\r\n");
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(gone_);
  }
  EXPECT_TRUE(Within(5, [&] { return gone_.load(); }));
}

// Asked counts what a stream was asked for, and says whether it is destroyed.
struct Asked {
  std::atomic<int64_t> bytes = 0, calls = 0;
  std::atomic<bool> destroyed = false, failing = false;
  std::function<void()> news;
};

// As many bytes as the client takes.
class Endless final : public HttpStream {
 public:
  explicit Endless(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  ~Endless() override { asked_->destroyed = true; }
  void Begin(const std::function<void()>& news) override { news_ = news; }
  Part Next() override {
    if (asked_->failing) throw std::runtime_error("a secret of the stream");
    ++asked_->calls;
    news_();
    asked_->bytes += 10'000;
    return {.bytes = std::string(10'000, 'x')};
  }

 private:
  std::shared_ptr<Asked> asked_;
  std::function<void()> news_;
};

// Says one word for each news, and ends at the third.
class Words final : public HttpStream {
 public:
  explicit Words(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  ~Words() override { asked_->destroyed = true; }
  void Begin(const std::function<void()>& news) override { asked_->news = news; }
  Part Next() override {
    const int64_t call = ++asked_->calls;
    return {.bytes = fmt::format("word{} ", call), .ended = call == 3};
  }

 private:
  std::shared_ptr<Asked> asked_;
};

// Has its status at the end alone.
class Late final : public HttpStream {
 public:
  explicit Late(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  Part Next() override {
    if (asked_->failing) throw std::runtime_error("a secret of the stream");
    if (++asked_->calls < 3) return {.seconds = 0.01};
    return {.whole = HttpReply{.status = 404, .body = "late", .headers = {{"X-Own", "b"}}}};
  }

 private:
  std::shared_ptr<Asked> asked_;
};

class HttpStreams : public HttpLimited {
 protected:
  HttpReply Answer(const HttpRequest& request) override {
    if (request.path == "/health") return {.body = "well"};
    HttpReply reply{.type = "text/plain", .headers = {{"X-Outer", "a"}}};
    if (request.path == "/endless") reply.stream = std::make_shared<Endless>(asked_);
    if (request.path == "/words") reply.stream = std::make_shared<Words>(asked_);
    reply.waits = request.path == "/late";
    if (reply.waits) reply.stream = std::make_shared<Late>(asked_);
    reply.ended = [this](int status) { ended_ = status; };
    return reply;
  }

  std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  std::atomic<int> ended_ = 0;
};

TEST_F(HttpStreams, SayWhatThereIsWhenThereAreNews) {
  Serve({});
  const RawClient client(port_);
  client.Send("GET /words HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kHealth));
  ASSERT_TRUE(Within(5, [&] { return asked_->calls == 1; }));
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(asked_->calls, 1) << "it is not asked without news";
  asked_->news();
  ASSERT_TRUE(Within(5, [&] { return asked_->calls == 2; }));
  EXPECT_EQ(ended_, 0);
  asked_->news();
  const std::string answer = client.Receive(5);
  EXPECT_TRUE(
      Contains(answer, "HTTP/1.1 200 OK\r\n", "X-Outer: a\r\n", "Content-Type: text/plain",
               "\r\n\r\n6\r\nword1 \r\n6\r\nword2 \r\n6\r\nword3 \r\n0\r\n\r\nHTTP/1.1 200"))
      << answer;
  EXPECT_EQ(ended_, 200);
  EXPECT_TRUE(asked_->destroyed);
  asked_->news();  // of one that has ended
  // To an older client it is plain, and ends with the connection.
  asked_->calls = 2;
  EXPECT_TRUE(Ask("GET /words HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nword3 "));
}

TEST_F(HttpStreams, MayHaveTheirStatusAtTheEnd) {
  Serve({});
  const std::string answer = Ask("GET /late HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kHealth));
  EXPECT_TRUE(Contains(answer, "HTTP/1.1 404 Not Found\r\n", "X-Own: b\r\n", "X-Outer: a\r\n",
                       "\r\n\r\nlateHTTP/1.1 200"))
      << answer;
  EXPECT_EQ(ended_, 404);
}

TEST_F(HttpStreams, OnesThatFailAreNotToldWhy) {
  Warnings warnings;
  Serve({});
  asked_->failing = true;
  const std::string late = Ask("GET /late HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(kHealth));
  EXPECT_TRUE(late.starts_with("HTTP/1.1 500")) << late;
  const std::string cut = Ask("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(cut.starts_with("HTTP/1.1 200")) << cut;
  EXPECT_FALSE(cut.ends_with("0\r\n\r\n")) << "it is incomplete: " << cut;
  EXPECT_EQ((late + cut).find("secret"), std::string::npos);
  EXPECT_EQ(Count(warnings.text(), "a secret of the stream"), 2u);
}

TEST_F(HttpStreams, WaitForWhoReadsSlowlyAndNotForEver) {
  Serve({.send_seconds = 0.5});
  const RawClient client(port_);
  const int small = 4096;
  setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  client.Send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(Within(5, [&] { return asked_->bytes > 0; }));
  EXPECT_TRUE(Within(5, [&] { return asked_->destroyed.load(); }));
  // This bounds what the kernel takes for both ends, and what waits.
  EXPECT_LT(asked_->bytes, 8 << 20);
  EXPECT_TRUE(Within(5, [&] { return server_->connections() == 0; }));
  EXPECT_EQ(ended_, 200);
}

TEST_F(HttpStreams, EndWhenTheirClientHangsUp) {
  Serve({});
  for (const char* path : {"/endless", "/words"}) {
    asked_->destroyed = false;
    {
      const RawClient client(port_);
      client.Send(fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", path));
      client.Receive(5, 12);
      EXPECT_FALSE(asked_->destroyed);
    }
    EXPECT_TRUE(Within(5, [&] { return asked_->destroyed.load(); })) << path;
    EXPECT_TRUE(Within(5, [&] { return server_->connections() == 0; })) << path;
  }
}

TEST(HttpServers, APortThatIsTakenIsNamed) {
  const auto handler = [](const HttpRequest&) { return HttpReply{}; };
  HttpServer one(handler), two(handler);
  const int port = one.Bind("127.0.0.1", 0);
  EXPECT_GT(port, 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { two.Bind("127.0.0.1", port); }, ErrorKind::kRuntime),
                       fmt::format("port {}", port), "in use"));
  EXPECT_TRUE(Contains(ErrorOf([&] { two.Bind("example.com", 0); }, ErrorKind::kUsage),
                       "'example.com' is not an address"));
}

TEST(HttpServers, WhatAHandlerThrowsIsLoggedAndNotTold) {
  Warnings warnings;
  HttpServer server([](const HttpRequest&) -> HttpReply { throw std::runtime_error("a secret"); });
  const int port = server.Bind("127.0.0.1", 0);
  std::thread serving([&] { server.Serve(); });
  {
    const RawClient client(port);
    client.Send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const std::string answer = client.Receive(5);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500")) << answer;
    EXPECT_EQ(answer.find("secret"), answer.npos);
  }
  server.Stop();
  serving.join();
  EXPECT_TRUE(Contains(warnings.text(), "a secret"));
}

}  // namespace
}  // namespace folio
