#include "folio/io/fetch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/sha256.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Sha256 pieces;
  for (const char* piece : {"", "a", "bc"}) pieces.Add(piece);
  EXPECT_EQ(pieces.Hex(), kAbc);
}

// Answers connections on a port of this machine, one after the other, each with the next of the
// given texts, and then takes no more.
class Server {
 public:
  explicit Server(std::vector<std::string> answers) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) Answer(answer);
    });
  }
  ~Server() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}/file", port_); }
  int asked() const { return asked_; }

 private:
  void Answer(const std::string& answer) {
    const int fd = accept(listener_, nullptr, nullptr);
    if (fd < 0) return;
    ++asked_;
    std::string request;
    char piece[512];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = read(fd, piece, sizeof(piece));
      if (n <= 0) break;
      request.append(piece, static_cast<size_t>(n));
    }
    if (answer == "wait") {
      while (read(fd, piece, sizeof(piece)) > 0) {
      }
    }
    (void)!send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    while (read(fd, piece, sizeof(piece)) > 0) {
    }
    close(fd);
  }

  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

std::string Ok(const std::string& body) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

class FetchTest : public InTemporaryDirectory {
 protected:
  FetchTest() { setenv("no_proxy", "*", 1); }

  WantedFile Wanted() const { return {At("wanted"), kAbc, 3, "look elsewhere"}; }
  FetchLimits Loopback() const { return {.schemes = "http,file", .redirect_schemes = "http"}; }

  static void Ignore(int64_t) {}
  void Fetch(const std::string& url, const FetchLimits& limits,
             const OnFetched& on = Ignore) const {
    FetchFile(url, Wanted(), on, limits);
  }
  // Fetches, expects it to fail so, and nothing to have changed in the directory.
  Error Failure(const std::string& url, const FetchLimits& limits, ErrorKind kind) const {
    const std::string before = Listing();
    const Error error = Refused([&] { Fetch(url, limits); }, kind);
    EXPECT_EQ(error.help(), "look elsewhere");
    EXPECT_EQ(Listing(), before);
    return error;
  }
  Error Failure(const std::string& url, ErrorKind kind) const {
    return Failure(url, Loopback(), kind);
  }

  std::string Listing() const {
    std::string listing;
    for (const auto& [name, bytes] : FilesBelow(At(""))) listing += name + "=" + bytes + ";";
    return listing;
  }
};

TEST_F(FetchTest, TheRightBytesArriveAndReplaceWrongOnes) {
  WriteFileAtomically(At("wanted"), "abX");
  EXPECT_FALSE(IsThere(Wanted()));
  const Server server({Ok("abc")});
  int64_t last = -1;
  Fetch(server.url(), Loopback(), [&](int64_t bytes) { last = bytes; });
  EXPECT_EQ(Listing(), "wanted=abc;");
  EXPECT_TRUE(IsThere(Wanted()));
  EXPECT_EQ(last, 3);
}

TEST_F(FetchTest, BytesWithAnotherHashAreNotKept) {
  WriteFileAtomically(At("wanted"), "old");
  const Server server({Ok("abd")});
  EXPECT_TRUE(Contains(Failure(server.url(), ErrorKind::kInput).cause(), kAbc));
}

TEST_F(FetchTest, TooManyBytesAreNotReadToTheirEnd) {
  const Server server({Ok(std::string(1 << 22, 'a'))});
  EXPECT_TRUE(Contains(Failure(server.url(), ErrorKind::kInput).cause(), "longer"));
}

TEST_F(FetchTest, TooFewBytesAreNotTheFile) {
  const Server server({Ok("ab"), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"});
  Failure(server.url(), ErrorKind::kInput);
  Failure(server.url(), ErrorKind::kRuntime);
}

TEST_F(FetchTest, AnAnswerThatIsAnErrorIsNotTheFile) {
  const Server server({"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc"});
  EXPECT_TRUE(Contains(Failure(server.url(), ErrorKind::kRuntime).cause(), "404"));
}

TEST_F(FetchTest, NobodyToAskIsOneLine) {
  std::string url;
  {
    const Server server({});
    url = server.url();
  }
  const Error error = Failure(url, ErrorKind::kRuntime);
  EXPECT_TRUE(Contains(error.what(), url));
  EXPECT_FALSE(error.cause().empty());
  EXPECT_EQ(error.cause().find('\n'), std::string::npos);
}

TEST_F(FetchTest, AServerThatSaysNothingIsGivenUp) {
  const Server server({"wait"});
  FetchLimits limits = Loopback();
  limits.stall_seconds = 1;
  Failure(server.url(), limits, ErrorKind::kRuntime);
}

TEST_F(FetchTest, OnlyTheSchemesOfTheLimitsAreSpoken) {
  const Server server({Ok("abc")});
  Failure(server.url(), {}, ErrorKind::kRuntime);
  EXPECT_EQ(server.asked(), 0);
  WriteFileAtomically(At("source"), "abc");
  const std::string file = "file://" + At("source").string();
  Failure(file, {}, ErrorKind::kRuntime);
  Fetch(file, Loopback());
  EXPECT_TRUE(IsThere(Wanted()));
}

TEST_F(FetchTest, RedirectsGoNowhereElse) {
  const Server second({Ok("abc")});
  const auto redirect = [&] {
    return "HTTP/1.1 302 Found\r\nLocation: " + second.url() + "\r\nContent-Length: 0\r\n\r\n";
  };
  const Server first({redirect(), redirect()});
  FetchLimits limits = Loopback();
  limits.redirect_schemes = FetchLimits().redirect_schemes;
  Failure(first.url(), limits, ErrorKind::kRuntime);
  EXPECT_EQ(second.asked(), 0);
  Fetch(first.url(), Loopback());
  EXPECT_TRUE(IsThere(Wanted()));
}

struct Enough {};

TEST_F(FetchTest, WhatProgressThrowsEndsTheWork) {
  const Server server({Ok("abc")});
  EXPECT_THROW(Fetch(server.url(), Loopback(), [](int64_t) { throw Enough(); }), Enough);
  EXPECT_EQ(Listing(), "");
}

TEST_F(FetchTest, ACopyIsCheckedToo) {
  WriteFileAtomically(At("source"), "abc");
  WriteFileAtomically(At("other"), "abd");
  WriteFileAtomically(At("longer"), "abcd");
  for (const char* wrong : {"other", "longer", "missing"}) {
    EXPECT_THROW(CopyFile(At(wrong), Wanted()), Error) << wrong;
  }
  EXPECT_FALSE(fs::exists(At("wanted")));
  CopyFile(At("source"), Wanted());
  EXPECT_EQ(ReadFile(At("wanted")), "abc");
}

}  // namespace
}  // namespace folio
