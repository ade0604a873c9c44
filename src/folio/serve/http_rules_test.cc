#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/serve/http_server.h"
#include "folio/serve/test_raw_client.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

// These are the rules of RFC 9110 and RFC 9112 for requests, row by row, against a server that
// tells what it understood.

namespace folio {
namespace {

constexpr char kHost[] = "Host: localhost\r\n";
// This is a request that an attacker would like to have answered for another client.
constexpr char kSecond[] = "GET /second HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

HttpReply Told(const HttpRequest& request) {
  return {.type = "text/plain",
          .body = fmt::format("[{} {} q={} x={} body={}]", request.method, request.path,
                              request.parameter("q"), request.header("x"), request.body)};
}

class HttpRules : public testing::Test {
 protected:
  // Returns the answer up to where the server closes, which it has to do soon. `pieces`: how the
  // request is cut.
  std::string Ask(const std::string& said, size_t pieces) const {
    const RawClient client(port_);
    for (size_t i = 0; i < pieces; ++i) {
      const size_t begin = i * said.size() / pieces, end = (i + 1) * said.size() / pieces;
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!client.Send(std::string_view(said).substr(begin, end - begin))) break;
    }
    const double begin = SteadySeconds();
    std::string answer = client.Receive(4);
    EXPECT_LT(SteadySeconds() - begin, 3) << "not closed: " << said.substr(0, 200) << answer;
    return answer;
  }
  static size_t Answers(const std::string& text) { return Count(text, "HTTP/1.1 "); }

  std::mutex mutex_;
  std::vector<std::string> refused_;
  RunningServer server_{Told,
                        {.head_bytes = 16 << 10,
                         .body_bytes = 20000,
                         .head_seconds = 5,
                         .receive_seconds = 5,
                         .idle_seconds = 5},
                        [this](const std::string& client, int status, const std::string& reason) {
                          const std::lock_guard lock(mutex_);
                          refused_.push_back(fmt::format("{} {} {}", client, status, reason));
                          return "id-of-the-log";
                        }};
  int port_ = server_.port();
};

struct Rule {
  const char* section;  // of RFC 9112, or of the one that is named
  std::string said;
  int status;
};

std::string Get(const std::string& fields) {
  return "GET /first HTTP/1.1\r\n" + fields + "\r\n";
}
std::string Post(const std::string& fields, const std::string& body) {
  return "POST /first HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n" + body;
}
std::string Chunked(const std::string& body) {
  return Post("Transfer-Encoding: chunked\r\n", body);
}

std::vector<Rule> Refused() {
  const std::string host = kHost, body(29, 'x');
  return {
      // Lines.
      {"2.2 bare LF", "GET /first HTTP/1.1\nHost: localhost\n\n", 400},
      {"2.2 bare LF in the fields", "GET /first HTTP/1.1\r\nHost: localhost\n\r\n", 400},
      {"2.2 bare CR", Get(host + "X: a\rb\r\n"), 400},
      {"2.2 bare CR in the request line", "GET /first\r HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"2.2 more than one empty line before it", "\r\n\r\n" + Get(host), 400},
      {"2.2 white space before the first field", "GET /first HTTP/1.1\r\n Host: a\r\n\r\n", 400},
      {"3 no target", "GET\r\n\r\n", 400},
      {"3 HTTP/0.9", "GET /first\r\n\r\n", 400},
      {"3 two spaces", "GET  /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3 a tab", "GET\t/first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3 white space behind the version", "GET /first HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400},
      {"3 a space in the target", "GET /fi rst HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3 TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
      {"3 zeros", std::string(5000, '\0'), 400},
      {"3 HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      // Methods, versions, targets.
      {"3.1 method", "BREW /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
      {"3.1 methods have a case", "get /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
      {"3.1 a method that is no token", "G(ET /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"RFC 9110 9.3.6 CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
      {"RFC 9110 9.3.8 TRACE", "TRACE /first HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
      {"2.3 HTTP/1.2", "GET /first HTTP/1.2\r\nHost: localhost\r\n\r\n", 505},
      {"2.3 HTTP/9.9", "GET /first HTTP/9.9\r\nHost: localhost\r\n\r\n", 505},
      {"2.3 HTTP/1.10", "GET /first HTTP/1.10\r\nHost: localhost\r\n\r\n", 400},
      {"2.3 http/1.1", "GET /first http/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"2.3 HTTP/1", "GET /first HTTP/1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2 no slash", "GET first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.1 a fragment", "GET /first#x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.1 an escape that is none", "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.1 half of an escape", "GET /first%2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.1 an escape in the query", "GET /a?q=%g0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.1 no ASCII", "GET /\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.2 a user in the host", "GET http://a@b/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.2 no host", "GET http:///first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.2 another scheme", "GET ftp://a/first HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3.2.4 only OPTIONS has '*'", "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"3 a target of 9,000", "GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n" + host + "\r\n",
       414},
      // Host.
      {"3.2 no Host", Get(""), 400},
      {"3.2 two Hosts", Get("Host: a\r\nHost: b\r\n"), 400},
      {"3.2 two equal Hosts", Get(host + host), 400},
      // Fields.
      {"5 no colon", Get(host + "foo\r\n"), 400},
      {"5 no name", Get(host + ": x\r\n"), 400},
      {"5.1 a space before the colon", Get("Host : localhost\r\n"), 400},
      {"5.1 a tab before the colon", Get(host + "X\t: a\r\n"), 400},
      {"5.1 a name that is no token", Get(host + "X(: a\r\n"), 400},
      {"5.1 a name that is no ASCII", Get(host + "X\xc3\xa9: a\r\n"), 400},
      {"5.2 a folded field", Get(host + "X: a\r\n b\r\n"), 400},
      {"5.2 folded by a tab", Get(host + "X: a\r\n\tb\r\n"), 400},
      {"RFC 9110 5.5 NUL", Get(host + std::string("X: a\0b\r\n", 8)), 400},
      {"RFC 9110 5.5 a control character", Get(host + "X: a\x1b[31m\r\n"), 400},
      {"RFC 9110 5.5 DEL", Get(host + "X: a\x7f\r\n"), 400},
      {"RFC 6585 5 too much of fields", Get(host + "X: " + std::string(17000, 'x') + "\r\n"), 431},
      {"RFC 6585 5 a line for ever", "GET /first HTTP/1.1\r\nX: " + std::string(17000, 'x'), 431},
      {"RFC 9110 10.1.1 Expect", Post("Content-Length: 1\r\nExpect: tea\r\n", "x"), 417},
      // Lengths.
      {"6.3 two lengths", Post("Content-Length: 29\r\nContent-Length: 5\r\n", body), 400},
      {"6.3 two equal lengths", Post("Content-Length: 29\r\nContent-Length: 29\r\n", body), 400},
      {"6.3 29, 5", Post("Content-Length: 29, 5\r\n", body), 400},
      {"6.3 29, 29", Post("Content-Length: 29, 29\r\n", body), 400},
      {"6.2 29abc", Post("Content-Length: 29abc\r\n", body), 400},
      {"6.2 +29", Post("Content-Length: +29\r\n", body), 400},
      {"6.2 -29", Post("Content-Length: -29\r\n", body), 400},
      {"6.2 0x1d", Post("Content-Length: 0x1d\r\n", body), 400},
      {"6.2 2 9", Post("Content-Length: 2 9\r\n", body), 400},
      {"6.2 nothing", Post("Content-Length: \r\n", body), 400},
      {"6.2 more than fits", Post("Content-Length: 99999999999999999999\r\n", body), 400},
      {"RFC 9110 15.5.14 too much", Post("Content-Length: 20001\r\n", ""), 413},
      {"RFC 9110 15.5.14 more", Post("Content-Length: 9999999999999999999\r\n", ""), 413},
      // Transfer-Encoding.
      {"6.1 with a length",
       Post("Content-Length: 29\r\nTransfer-Encoding: chunked\r\n",
            "1d\r\n" + body + "\r\n0\r\n\r\n"),
       400},
      {"6.1 before a length",
       Post("Transfer-Encoding: chunked\r\nContent-Length: 29\r\n",
            "1d\r\n" + body + "\r\n0\r\n\r\n"),
       400},
      {"6.1 gzip, chunked", Post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501},
      {"6.1 chunked, chunked", Post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), 501},
      {"6.1 chunked twice",
       Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {"6.1 identity", Post("Transfer-Encoding: identity\r\n", ""), 501},
      {"6.1 xchunked", Post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
      {"6.1 \"chunked\"", Post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), 501},
      {"6.1 with a control character", Post("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"), 400},
      {"6.1 nothing", Post("Transfer-Encoding:\r\n", "0\r\n\r\n"), 501},
      {"6.1 in HTTP/1.0", "POST /first HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      // Chunks.
      {"7.1 size 0x1d", Chunked("0x1d\r\n" + body + "\r\n0\r\n\r\n"), 400},
      {"7.1 size zz", Chunked("zz\r\n"), 400},
      {"7.1 size +5", Chunked("+5\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1 size -5", Chunked("-5\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1 no size", Chunked("\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1 white space before the size", Chunked(" 5\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1 white space behind the size", Chunked("5 \r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1 more than fits", Chunked("ffffffffffffffff\r\nabc"), 413},
      {"7.1 more than fits by far", Chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1 too much", Chunked("4e21\r\n"), 413},
      {"7.1 a size for ever", Chunked(std::string(3000, '0')), 400},
      {"7.1 size ended by LF", Chunked("5\nhello\n0\n\n"), 400},
      {"7.1 size ended by CR", Chunked("5\rXhello\r\n0\r\n\r\n"), 400},
      {"7.1 no CRLF behind the chunk", Chunked("5\r\nhelloxx0\r\n\r\n"), 400},
      {"7.1 LF behind the chunk", Chunked("5\r\nhello\n0\r\n\r\n"), 400},
      {"7.1 a longer chunk than it says", Chunked("3\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1.1 an extension", Chunked("5;a=b\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1.1 an extension with LF", Chunked("5;\nxx\r\nhello\r\n0\r\n\r\n"), 400},
      {"7.1.1 an extension of the last", Chunked("5\r\nhello\r\n0;a\r\n\r\n"), 400},
      {"7.1.2 a trailer", Chunked("5\r\nhello\r\n0\r\nHost: evil\r\n\r\n"), 400},
      {"7.1.2 a trailer that is none", Chunked("5\r\nhello\r\n0\r\nGET / HTTP/1.1\r\n\r\n"), 400},
  };
}

TEST_F(HttpRules, WhatIsNotWellFormedIsRefusedAndNothingBehindIt) {
  for (const Rule& rule : Refused()) {
    for (const size_t pieces : {size_t{1}, size_t{9}}) {
      const std::string answer = Ask(rule.said + kSecond, pieces);
      EXPECT_TRUE(answer.starts_with(fmt::format("HTTP/1.1 {} ", rule.status)))
          << rule.section << ": " << answer.substr(0, 300);
      EXPECT_EQ(Answers(answer), 1u) << rule.section << answer;
      EXPECT_TRUE(Contains(answer, "Connection: close\r\n", "X-Request-Id: id-of-the-log\r\n",
                           R"({"error":{"message":")"))
          << rule.section << answer;
      EXPECT_EQ(answer.find("/second"), answer.npos) << rule.section << answer;
    }
  }
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(refused_.size(), 2 * Refused().size()) << "each is told, for the log";
  EXPECT_TRUE(refused_.front().starts_with("127.0.0.1 400 ")) << refused_.front();
}

TEST_F(HttpRules, WhatIsWellFormedIsUnderstoodInOneWay) {
  const std::string host = kHost, body(29, 'x');
  const std::vector<std::pair<std::string, std::string>> understood = {
      {Get(host), "[GET /first q= x= body=]"},
      {"\r\n" + Get(host), "[GET /first q= x= body=]"},  // 2.2
      {"GET /a%20b%2fc?q=d+e%26&q=f HTTP/1.1\r\nHost: a\r\n\r\n", "[GET /a b/c q=d e& x= body=]"},
      {"GET /a+b?x&q HTTP/1.1\r\nHost: a\r\n\r\n", "[GET /a+b q= x= body=]"},
      {"GET /?q={\"a\"|b} HTTP/1.1\r\nHost: a\r\n\r\n", "[GET / q={\"a\"|b} x= body=]"},
      {"GET http://b/first?q=1 HTTP/1.1\r\nHost: a\r\n\r\n", "[GET /first q=1 x= body=]"},  // 3.2.2
      {"GET HTTP://b?q=1 HTTP/1.1\r\nHost: a\r\n\r\n", "[GET / q=1 x= body=]"},
      {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "[OPTIONS * q= x= body=]"},     // 3.2.4
      {Get("hOsT:a\r\nX:  a \t\r\nx: b\r\n"), "[GET /first q= x=a, b body=]"},  // 5.1, RFC 9110 5.3
      {Get(host + "X: \xc3\xa9\r\n"), "[GET /first q= x=\xc3\xa9 body=]"},
      {Post("Content-Length: 29\r\n", body), "[POST /first q= x= body=" + body + "]"},
      {Post("Content-Length: 029\r\n", body), "[POST /first q= x= body=" + body + "]"},
      {Post("", ""), "[POST /first q= x= body=]"},  // 6.3
      {"PUT /first HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "[PUT /first q= x= body=x]"},
      {"DELETE /first HTTP/1.1\r\nHost: a\r\n\r\n", "[DELETE /first q= x= body=]"},
      {Chunked("5\r\nhello\r\n00A\r\n, chunked!\r\n0\r\n\r\n"),
       "[POST /first q= x= body=hello, chunked!]"},
      {Chunked("0\r\n\r\n"), "[POST /first q= x= body=]"},
      // The body of a GET is the GET's, and no request of its own.
      {Get(host + fmt::format("Content-Length: {}\r\n", std::size(kSecond) - 1)) + kSecond,
       fmt::format("[GET /first q= x= body={}]", kSecond)},
  };
  for (const auto& [said, expected] : understood) {
    for (const size_t pieces : {size_t{1}, size_t{9}}) {
      const std::string answers = Ask(said + kSecond, pieces);
      EXPECT_EQ(Answers(answers), 2u) << said << answers;
      const size_t first = answers.find(expected);
      EXPECT_NE(first, answers.npos) << said << answers;
      EXPECT_NE(answers.find("[GET /second q= x= body=]", first + expected.size()), answers.npos)
          << said << answers;
    }
  }
  // HTTP/1.0 needs no Host, and gets one answer.
  const std::string old = Ask(std::string("GET /first HTTP/1.0\r\n\r\n") + kSecond, 1);
  EXPECT_TRUE(Contains(old, "[GET /first", "Connection: close\r\n"));
  EXPECT_EQ(Answers(old), 1u);
}

// RFC 9110, 9.3.2
TEST_F(HttpRules, AHeadIsThatOfGetWithoutItsBody) {
  const std::string answer =
      Ask(std::string("HEAD /first HTTP/1.1\r\nHost: a\r\n\r\n") + kSecond, 1);
  EXPECT_EQ(Answers(answer), 2u);
  EXPECT_TRUE(Contains(answer, "Content-Length: 25\r\n\r\nHTTP/1.1 200")) << answer;
}

// RFC 9110, 10.1.1
TEST_F(HttpRules, WhoWaitsForWordOfItsHeadGetsIt) {
  const RawClient client(port_);
  client.Send(
      "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(client.Receive(2, 25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_TRUE(Contains(client.Receive(2), "HTTP/1.1 200", "body=hi]"));
  // One whose body is too large learns that instead.
  const RawClient large(port_);
  large.Send(
      "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(large.Receive(2).starts_with("HTTP/1.1 413"));
}

TEST_F(HttpRules, ManyFieldsGetOneAnswer) {
  std::string head = "GET /first HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 100'000; ++i) head += "a:\r\n";
  const std::string answer = Ask(head + "\r\n" + kSecond, 1);
  EXPECT_LE(Answers(answer), 1u);
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 431")) << answer;
  // So many are taken.
  head = "GET /first HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  for (int i = 0; i < 98; ++i) head += "a:\r\n";
  EXPECT_TRUE(Ask(head + "\r\n", 1).starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(Ask(head + "a:\r\n\r\n", 1).starts_with("HTTP/1.1 431"));
}

// The stacks of threads that begin while it lives.
class SmallStacks {
 public:
  SmallStacks() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t small;
    pthread_getattr_default_np(&small);
    pthread_attr_setstacksize(&small, kSanitized ? 2 << 20 : 256 << 10);
    pthread_setattr_default_np(&small);
    pthread_attr_destroy(&small);
  }
  ~SmallStacks() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(HttpServers, ALongAddressNeedsNoStack) {
  const SmallStacks small;
  HttpServer server(Told);
  const int port = server.Bind("127.0.0.1", 0);
  std::thread serving([&] { server.Serve(); });
  {
    const RawClient client(port);
    client.Send("GET /" + std::string(8000, 'A') +
                " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const std::string answer = client.Receive(5);
    EXPECT_TRUE(Contains(answer, "HTTP/1.1 200", "[GET /AAAAA")) << answer.substr(0, 300);
  }
  server.Stop();
  serving.join();
}

}  // namespace
}  // namespace folio
