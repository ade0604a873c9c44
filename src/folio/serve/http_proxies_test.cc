#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
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
#include "folio/serve/http_server.h"
#include "folio/serve/test_raw_client.h"
#include "tests/kit/directory.h"

// Behind proxies that keep their connections to the service, over which the requests of many
// clients go: what one client says is never answered to another.

namespace folio {
namespace {

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
