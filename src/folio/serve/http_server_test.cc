#include "folio/serve/http_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/clock.h"
#include "folio/io/file.h"
#include "folio/serve/http_client.h"
#include "folio/serve/test_raw_client.h"
#include "folio/serve/test_service.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::string RequestOf(const std::string& body, const std::string& more = "Connection: close\r\n") {
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      body.size(), more, body);
}

class HttpFaults : public ServiceTest {
 protected:
  // Limits small enough to wait for.
  HttpFaults() {
    ServiceOptions options;
    options.scheduler.queue = 200;
    Serve(options, {.connections = 40,
                    .client_connections = 40,
                    .head_bytes = 4096,
                    .body_bytes = 20000,
                    .receive_seconds = 0.4,
                    .send_seconds = 0.8,
                    .idle_seconds = 0.3});
  }
  // Expects that the process serves the next request, and that soon nothing is left of the others.
  void ExpectAlive() {
    const double end = SteadySeconds() + 20;
    while (!Talk("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .starts_with("HTTP/1.1 200")) {
      ASSERT_LT(SteadySeconds(), end) << "nobody answers";
    }
    const auto busy = [&] {
      const std::string text = Metrics();
      return !Contains(text, "folio_texts_running 0\n", "folio_texts_waiting 0\n",
                       "folio_cache_used_bytes 0\n");
    };
    while (busy()) {
      ASSERT_LT(SteadySeconds(), end) << Metrics();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::string Talk(const std::string& said) const {
    const RawClient client(port_);
    client.Send(said);
    return client.Receive(30);
  }
};

TEST_F(HttpFaults, ALargeBodyIsRefusedBeforeItHasCome) {
  const RawClient honest(port_);
  honest.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n");
  EXPECT_TRUE(honest.Receive(5).starts_with("HTTP/1.1 413"));
  // By chunks, whose sum nobody has said.
  const RawClient sly(port_);
  sly.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "1000\r\n" + std::string(4096, 'x') + "\r\n";
  int64_t sent = 0;
  while (sent < 250000 && sly.Send(chunk)) ++sent;
  EXPECT_LT(sent, 250000) << "a gigabyte was taken";
  ExpectAlive();
}

TEST_F(HttpFaults, AByteNowAndThenIsNotEnough) {
  const std::string request = RequestOf(R"({"model":"small","prompt":"x"})");
  for (const size_t at_once : {size_t{0}, request.size() - 20}) {  // in the head, in the body
    const RawClient slow(port_);
    ASSERT_TRUE(slow.Send(request.substr(0, at_once)));
    const double begin = SteadySeconds();
    for (size_t i = at_once; i < request.size() && slow.Send(request.substr(i, 1)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
      if (SteadySeconds() - begin > 1.5) break;
    }
    EXPECT_FALSE(slow.Receive(2).starts_with("HTTP/1.1 200"));
  }
  ExpectAlive();
}

TEST_F(HttpFaults, ClientsMayHangUpAtAnyPoint) {
  for (const bool stream : {false, true}) {
    const std::string request = RequestOf(fmt::format(
        R"({{"model":"small","prompt":"Once","max_tokens":290,"n":4,"stream":{}}})", stream));
    for (size_t length = 0; length <= request.size(); length += length < request.size() ? 17 : 1) {
      const size_t part = std::min(length, request.size());
      for (const bool reset : {false, true}) {
        const RawClient client(port_);
        client.Send(request.substr(0, part));
        if (part == request.size() && stream) client.Receive(1, 2000);
        if (reset) client.Reset();
      }
      if (part == request.size()) break;
    }
  }
  ExpectAlive();
}

// 290 tokens of random weights are written in well under the time that is waited here: what ends
// the text is that the client is gone.
TEST_F(HttpFaults, AClientThatIsGoneFreesItsSlots) {
  const int64_t before = service_->metrics().new_tokens;
  {
    const RawClient client(port_);
    client.Send(RequestOf(R"({"model":"small","prompt":"Once","max_tokens":290,"n":128})"));
    while (service_->metrics().new_tokens == before) std::this_thread::yield();
  }
  ExpectAlive();
  EXPECT_LT(service_->metrics().new_tokens - before, 290 * 128);
}

TEST_F(HttpFaults, AClientThatDoesNotReadEnds) {
  const RawClient client(port_);
  const int small = 4096;
  setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  std::string request;
  for (int i = 0; i < 60; ++i) {  // answers of 60 x 20 x 290 tokens, none of which is read
    request += RequestOf(
        R"({"model":"small","prompt":"Once","max_tokens":40,"n":20,"logprobs":20,"stream":true})",
        "");
  }
  client.Send(request.substr(0, 20000));
  ExpectAlive();
  const double end = SteadySeconds() + 20;
  while (server_->connections() > 1 && SteadySeconds() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(server_->connections(), 1);
}

// Ten thousand at a time, or as many as this process may have.
TEST_F(HttpFaults, ConnectionsBeyondTheLimitAreTold) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const int count = static_cast<int>(std::min<rlim_t>(10'000, files.rlim_cur - 200));
  std::vector<std::unique_ptr<RawClient>> clients;
  int told = 0;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<RawClient>(port_));
    ASSERT_TRUE(clients.back()->connected()) << i;
    clients.back()->Send("GET /hea");
  }
  EXPECT_LE(server_->connections(), 40);
  for (const auto& client : clients) {
    told += client->Receive(3, 12).starts_with("HTTP/1.1 503") ? 1 : 0;
  }
  // All but those that were taken, whose time ended meanwhile, and those whose first bytes crossed
  // the answer.
  EXPECT_GT(told, count / 2);
  clients.clear();
  const double end = SteadySeconds() + 10;
  while (server_->connections() > 0 && SteadySeconds() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ExpectAlive();
}

class HttpServed : public ServiceTest {};

// Even with unlimited time, a request without a body has ended with its head.
TEST_F(HttpServed, APostWithoutABodyDoesNotWait) {
  Serve({}, {.receive_seconds = 1e6, .idle_seconds = 1e6});
  {
    const RawClient client(port_);
    client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const std::string answer = client.Receive(60);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400")) << answer;
  }
  client_.reset();
}

TEST_F(HttpFaults, ManyRequestsShareAConnection) {
  for (int i = 0; i < 30; ++i) {
    const auto result = client_->Get("/health");
    ASSERT_TRUE(result);
    EXPECT_EQ(result.status, 200);
  }
  // Three at once, answered in turn.
  const std::string get = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  const std::string answers = Talk(get + "\r\n" + get + "\r\n" + get + "Connection: close\r\n\r\n");
  EXPECT_EQ(Count(answers, "HTTP/1.1 200 OK"), 3u) << answers;
}

TEST_F(HttpFaults, AnOlderProtocolIsSpoken) {
  const std::string body = R"({"model":"small","prompt":"x","max_tokens":3,"stream":true})";
  const std::string answer = Talk(Replaced(RequestOf(body), "HTTP/1.1", "HTTP/1.0"));
  EXPECT_TRUE(Contains(answer, "200 OK", "data: [DONE]\n\n"));
  EXPECT_EQ(answer.find("chunked"), answer.npos);
  // It has no Host, and load balancers that ask by it give none.
  EXPECT_TRUE(Contains(Talk("GET /health HTTP/1.0\r\n\r\n"), "200 OK"));
  EXPECT_TRUE(Contains(Talk("GET http://evil.example/health HTTP/1.0\r\n\r\n"), " 403 "));
  EXPECT_TRUE(Contains(Talk("GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n"), " 403 "));
}

TEST_F(HttpFaults, StoppingLetsRequestsEnd) {
  std::atomic<bool> done = false;
  std::string text;
  std::thread asking([&] {
    text = Complete({{"prompt", "Once"},
                     {"max_tokens", 250},
                     {"n", 32},
                     {"seed", 1}})["choices"][size_t{31}]["text"]
               .text();
    done = true;
  });
  while (service_->metrics().new_tokens == 0) std::this_thread::yield();
  const int port = port_;
  server_.reset();
  EXPECT_TRUE(RawClient(port).connected() == false) << "no new ones";
  asking.join();
  EXPECT_TRUE(done);
  EXPECT_FALSE(text.empty());
  client_.reset();
}

// Behind proxies that keep their connections to the service, over which the requests of many
// clients go: what one client says is never answered to another.

int FreePort() {
  HttpServer server([](const HttpRequest&) { return HttpReply{}; });
  return server.Bind("127.0.0.1", 0);
}

std::string ProgramAt(const std::string& name) {
  for (const char* dir : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"}) {
    if (access((dir + name).c_str(), X_OK) == 0) return dir + name;
  }
  return "";
}

class HttpProxies : public InTemporaryDirectory {
 protected:
  ~HttpProxies() override {
    if (proxy_ <= 0) return;
    kill(proxy_, SIGKILL);
    waitpid(proxy_, nullptr, 0);
  }

  // Runs a program until the test ends, and waits until it passes requests on.
  void Run(const std::vector<std::string>& words) {
    proxy_ = fork();
    if (proxy_ == 0) {
      const int log = open(At("log").c_str(), O_CREAT | O_WRONLY, 0600);
      dup2(log, 1);
      dup2(log, 2);
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    for (const double end = SteadySeconds() + 20; !HttpClient("127.0.0.1", port_).Get("/begun");) {
      ASSERT_LT(SteadySeconds(), end) << ReadFile(At("log"), 1 << 16);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void ExpectNoAnswerForAnother() const;

  RunningServer server_{[](const HttpRequest& request) {
    return HttpReply{.type = "text/plain",
                     .body = fmt::format("[{} {}]", request.method, request.path)};
  }};
  int service_ = server_.port(), port_ = FreePort();
  pid_t proxy_ = 0;
};

std::vector<std::string> Attacks() {
  const std::string second = "GET /attack HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto length = [&](const std::string& field) {
    return "POST /attacker HTTP/1.1\r\nHost: localhost\r\n" + field + "\r\n" + second;
  };
  const auto chunks = [&](const std::string& field, const std::string& body) {
    return "POST /attacker HTTP/1.1\r\nHost: localhost\r\n" + field + "\r\n" + body + second;
  };
  const std::string n = std::to_string(second.size()), te = "Transfer-Encoding: chunked\r\n";
  std::vector<std::string> attacks = {
      "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" + second,
      "HEAD /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" + second,
      "DELETE /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" + second,
      "OPTIONS /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" + second,
      "BREW /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" + second,
      "GET /%zz HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" + second,
      "GET http://other/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + n + "\r\n\r\n" +
          second,
      length("Content-Length: " + n + "\r\nContent-Length: 0\r\n"),
      length("Content-Length: 0\r\nContent-Length: " + n + "\r\n"),
      length("Content-Length: 0, " + n + "\r\n"),
      length("Content-Length: +" + n + "\r\n"),
      length("Content-Length: " + n + "abc\r\n"),
      length("Content-Length : " + n + "\r\n"),
      length("X: a\r\n Content-Length: " + n + "\r\n"),
      length("Content-Length: " + n + "\r\nExpect: 100-continue\r\n"),
      length("Content-Length: " + n + "\r\nExpect: tea\r\n"),
      length("Content-Length: " + n + "\r\nX: " + std::string(20'000, 'x') + "\r\n"),
      chunks(te + "Content-Length: 5\r\n", "0\r\n\r\n"),
      chunks("Content-Length: 5\r\n" + te, "0\r\n\r\n"),
      chunks("Transfer-Encoding: xchunked\r\n" + te, "0\r\n\r\n"),
      chunks("Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"),
      chunks("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"),
      chunks("Transfer-Encoding\r\n : chunked\r\n", "0\r\n\r\n"),
      chunks("Content-Length: 5\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      chunks(te, "0x0\r\n\r\n"),
      chunks(te, "5;\n\r\nhello\r\n0\r\n\r\n"),
      chunks(te, "5;a=b\r\nhello\r\n0\r\n\r\n"),
      chunks(te, "3\r\nabcxx0\r\n\r\n"),
      chunks(te, "0\r\nContent-Length: " + n + "\r\n\r\n"),
      chunks(te, "0\n\n"),
      // Too large, with what would be the next request behind it.
      length("Content-Length: 99999999\r\n"),
      "GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
  };
  return attacks;
}

void HttpProxies::ExpectNoAnswerForAnother() const {
  std::atomic<bool> over = false;
  std::atomic<int> attacked = 0;
  const std::vector<std::string> attacks = Attacks();
  const auto attack = [&](size_t first) {
    for (size_t i = first; !over; ++i) {
      const RawClient client(port_);
      client.Send(attacks[i % attacks.size()]);
      client.Receive(0.02);
      ++attacked;
    }
  };
  std::vector<std::thread> attackers;
  for (size_t i = 0; i < 3; ++i) attackers.emplace_back(attack, i * 11);
  HttpClient client("127.0.0.1", port_);
  int asked = 0;
  for (; asked < 200 || attacked < 3 * std::ssize(attacks); ++asked) {
    const std::string path = fmt::format("/victim-{}", asked);
    // Kept connections and new ones.
    const HttpAnswer answer =
        asked % 2 == 0 ? client.Get(path) : HttpClient("127.0.0.1", port_).Get(path);
    EXPECT_EQ(answer.body, "[GET " + path + "]") << answer.status;
    if (HasFailure()) break;
  }
  over = true;
  for (std::thread& one : attackers) one.join();
}

TEST_F(HttpProxies, NoAnswerReachesAnotherClientBehindNginx) {
  const std::string program = ProgramAt("nginx");
  if (program.empty()) GTEST_SKIP() << "skipped: there is no nginx";
  WriteFileAtomically(At("conf"), fmt::format(R"(
daemon off;
master_process off;
pid {0}/pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {0}/body;
  proxy_temp_path {0}/proxy;
  fastcgi_temp_path {0}/fastcgi;
  uwsgi_temp_path {0}/uwsgi;
  scgi_temp_path {0}/scgi;
  large_client_header_buffers 4 64k;
  upstream service {{
    server 127.0.0.1:{1};
    keepalive 4;
  }}
  server {{
    listen 127.0.0.1:{2};
    client_max_body_size 0;
    location / {{
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_next_upstream error timeout;
    }}
  }}
}}
)",
                                              At("").string(), service_, port_));
  Run({program, "-p", At("").string(), "-e", "stderr", "-c", At("conf").string()});
  ExpectNoAnswerForAnother();
}

TEST_F(HttpProxies, NoAnswerReachesAnotherClientBehindHaproxy) {
  const std::string program = ProgramAt("haproxy");
  if (program.empty()) GTEST_SKIP() << "skipped: there is no haproxy";
  WriteFileAtomically(At("conf"), fmt::format(R"(
global
  maxconn 256
defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  http-reuse always
  option http-keep-alive
  retry-on conn-failure empty-response
frontend all
  bind 127.0.0.1:{}
  default_backend service
backend service
  server one 127.0.0.1:{}
)",
                                              port_, service_));
  Run({program, "-db", "-f", At("conf").string()});
  ExpectNoAnswerForAnother();
}

}  // namespace
}  // namespace folio
