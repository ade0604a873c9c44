#include "folio/io/fetch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/full_disk.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Digest pieces = Digest::Sha256();
  for (const char* piece : {"", "a", "bc"}) pieces.Add(piece);
  EXPECT_EQ(pieces.Hex(), kAbc);
}

// Answers connections on a port of this machine, one after the other, each with the next of the
// given texts, then accepts no more. A client that is silent for a minute is dropped.
class Server {
 public:
  // With a `drip`, the second half of each answer comes in pieces of this many bytes, 20 per
  // second.
  explicit Server(std::vector<std::string> answers, size_t drip = 0) : drip_(drip) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_TRUE(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 4) == 0 &&
                getsockname(listener_.get(), any, &size) == 0);
    SetDeadline(listener_.get());
    url_ = fmt::format("http://127.0.0.1:{}/file", ntohs(address.sin_port));
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) Answer(answer);
    });
  }
  ~Server() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  const std::string& url() const { return url_; }
  int asked() const { return static_cast<int>(Count(requests(), "\r\n\r\n")); }
  // All requests so far, one after the other.
  std::string requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  static void SetDeadline(int socket) {
    constexpr timeval kMinute = {.tv_sec = 60, .tv_usec = 0};
    EXPECT_EQ(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kMinute, sizeof(kMinute)), 0);
  }

  // Reads up to `end`, or all.
  static std::string ReadTo(int socket, std::string_view end) {
    std::string text;
    char piece[512];
    for (ssize_t n = 1; n > 0 && (end.empty() || text.find(end) == std::string::npos);) {
      n = read(socket, piece, sizeof(piece));
      if (n > 0) text.append(piece, static_cast<size_t>(n));
    }
    return text;
  }

  void Answer(const std::string& answer) {
    const internal::FileDescriptor connection(accept(listener_.get(), nullptr, nullptr));
    const int fd = connection.get();
    if (fd < 0) return;
    SetDeadline(fd);
    const std::string request = ReadTo(fd, "\r\n\r\n");
    {
      const std::scoped_lock lock(mutex_);
      requests_ += request;
    }
    if (answer == "wait") ReadTo(fd, "");
    size_t sent = 0;
    if (drip_ > 0) {  // headers and part of the body, then a few bytes at a time
      sent = answer.size() / 2;
      (void)!send(fd, answer.data(), sent, MSG_NOSIGNAL);
      for (ssize_t n = 1; n > 0 && sent < answer.size(); sent += static_cast<size_t>(n)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        n = send(fd, answer.data() + sent, std::min(drip_, answer.size() - sent), MSG_NOSIGNAL);
      }
    }
    (void)!send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    ReadTo(fd, "");
  }

  const internal::FileDescriptor listener_{socket(AF_INET, SOCK_STREAM, 0)};
  const size_t drip_;
  std::string url_;
  mutable std::mutex mutex_;
  std::string requests_;
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
  // Fetches, expects this failure, and no change in the directory.
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

TEST_F(FetchTest, WhoeverWaitsForAPageIsAsked) {
  struct Enough {};
  const Server server({"wait"});
  FetchLimits limits = Loopback();
  limits.on_wait = [] { throw Enough(); };
  EXPECT_THROW(FetchPage(server.url(), 100, limits), Enough);
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

// A file so large that its beginning is kept.
class LargeFetch : public FetchTest {
 protected:
  static constexpr size_t kSize = 3 << 20, kCut = 2 << 20;

  LargeFetch() {
    for (size_t i = 0; i < kSize; ++i) body_ += static_cast<char>(i * 2654435761u >> 13);
    wanted_ = {At("large"), Sha256Hex(body_), kSize, "look elsewhere"};
    part_ = ".large." + wanted_.hash.substr(0, 16) + ".part";
  }

  void Fetch(const std::string& url) const { FetchFile(url, wanted_, Ignore, Loopback()); }
  std::string Failure(const std::string& url, ErrorKind kind = ErrorKind::kRuntime) const {
    return ErrorOf([&] { Fetch(url); }, kind);
  }
  // Promises all of it, but ends the connection after kCut bytes.
  std::string Cut() const {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kSize) +
           body_.substr(0, kCut);
  }
  std::string Rest(size_t from) const {
    return fmt::format(
               "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n"
               "Content-Length: {}\r\n\r\n",
               from, kSize - 1, kSize, kSize - from) +
           body_.substr(from);
  }
  void ExpectWhole() const {
    EXPECT_EQ(Names(), Strings{"large"});
    EXPECT_TRUE(ReadFile(At("large")) == body_);
  }

  std::string body_, part_;
  WantedFile wanted_;
};

TEST_F(LargeFetch, ACutConnectionIsGoneOnFromWhereItWasCut) {
  const Server server({Cut(), Rest(kCut)});
  EXPECT_TRUE(Contains(Failure(server.url()), "2097152 bytes received"));
  EXPECT_EQ(Names(), Strings{part_});
  Fetch(server.url());
  ExpectWhole();
  EXPECT_TRUE(Contains(server.requests(), "Range: bytes=2097152-\r\n"));
}

// It would take a week, but never stalls.
TEST_F(LargeFetch, WhatComesTooSlowlyIsGivenUpAndGoneOnWith) {
  const size_t half = Ok(body_).size() / 2 - (Ok(body_).size() - body_.size());
  {
    const Server server({Ok(body_)}, /*drip=*/10);
    FetchLimits limits = Loopback();
    limits.slowest = 1;
    limits.rate_seconds = 2;
    const Error error =
        Refused([&] { FetchFile(server.url(), wanted_, Ignore, limits); }, ErrorKind::kRuntime);
    EXPECT_TRUE(Contains(error.cause(), "too slow", "less than 4096 per second", "bytes received"));
    EXPECT_EQ(Names(), Strings{part_});
    EXPECT_GE(fs::file_size(At(part_)), half);
  }
  const size_t kept = fs::file_size(At(part_));
  const Server server({Rest(kept)});
  Fetch(server.url());
  ExpectWhole();
}

TEST_F(LargeFetch, ARedirectIsGoneOnFromToo) {
  const Server second({Rest(kCut)});
  const Server first({Cut(), "HTTP/1.1 302 Found\r\nLocation: " + second.url() +
                                 "\r\nContent-Length: 5\r\n\r\nmoved"});
  Failure(first.url());
  Fetch(first.url());
  ExpectWhole();
}

// The server ignores ranges, sends one of another place, or says that nothing more is left.
TEST_F(LargeFetch, WithoutTheRestItBeginsAnew) {
  for (const std::string& second :
       {Ok(body_), Rest(kCut + 1),
        std::string("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n")}) {
    const Server server({Cut(), second, Ok(body_)});
    Failure(server.url());
    Fetch(server.url());
    ExpectWhole();
    fs::remove(At("large"));
  }
}

TEST_F(LargeFetch, OfBytesWithAnotherHashNothingIsKept) {
  std::string other = body_;
  other[kSize - 1] = static_cast<char>(other[kSize - 1] ^ 1);
  const Server server({Ok(other)});
  EXPECT_TRUE(Contains(Failure(server.url(), ErrorKind::kInput), wanted_.hash));
  EXPECT_EQ(Names(), Strings{});
  // A damaged beginning is not kept either.
  WriteFileAtomically(At(part_), other.substr(kSize - kCut));
  const Server rest({Rest(kCut)});
  EXPECT_TRUE(Contains(Failure(rest.url(), ErrorKind::kInput), wanted_.hash));
  EXPECT_EQ(Names(), Strings{});
}

TEST_F(LargeFetch, WhatHasComeWholeNeedsNoNetwork) {
  WriteFileAtomically(At(part_), body_);
  Fetch("http://127.0.0.1:1/");
  ExpectWhole();
}

TEST_F(LargeFetch, ThePartOfAnotherDownloadIsNotGoneOnFrom) {
  WriteFileAtomically(At(".large.0123456789abcdef.part"), body_.substr(0, kCut));
  const Server server({Ok(body_)});
  Fetch(server.url());
  EXPECT_TRUE(ReadFile(At("large")) == body_);
  EXPECT_EQ(server.requests().find("Range:"), std::string::npos);
}

// In a directory that all may write to, another user knows the name.
TEST_F(LargeFetch, NothingIsAddedToAFileThatOthersSee) {
  const auto fails = [&] { Failure("http://127.0.0.1:1/"); };
  WriteFileAtomically(At("precious"), "modified since");
  std::filesystem::create_hard_link(At("precious"), At(part_));
  EXPECT_TRUE(Contains(Failure("http://127.0.0.1:1/"), "cannot write"));
  std::filesystem::remove(At(part_));
  std::filesystem::create_symlink(At("precious"), At(part_));
  fails();
  std::filesystem::remove(At(part_));
  ASSERT_EQ(mkfifo(At(part_).c_str(), 0666), 0);
  fails();
  std::filesystem::remove(At(part_));
  EXPECT_EQ(ReadFile(At("precious")), "modified since");
  EXPECT_EQ(Names(), Strings{"precious"});
}

TEST_F(LargeFetch, ALoopOfRedirectsEnds) {
  std::vector<std::string> answers;
  // A server that redirects to itself; it cannot know its port in advance.
  for (int i = 0; i < 20; ++i) {
    answers.emplace_back(
        "HTTP/1.1 302 Found\r\nLocation: /file\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n");
  }
  const Server server(answers);
  EXPECT_TRUE(Contains(Failure(server.url()), "redirect"));
  EXPECT_LE(server.asked(), 6);
  EXPECT_EQ(Names(), Strings{});
}

TEST_F(LargeFetch, AFullDiskKeepsWhatFitsAndGoesOnWhenThereIsRoom) {
  const Server server({Ok(body_), Rest(kCut)});
  {
    const FullDisk full(kCut);
    EXPECT_TRUE(Contains(Failure(server.url()), "cannot write", "large"));
  }
  EXPECT_EQ(Names(), Strings{part_});
  Fetch(server.url());
  ExpectWhole();
}

TEST_F(LargeFetch, TwoDownloadsOfOneFileDoNotMix) {
  const Server server({Ok(body_)});
  std::string refusal;
  FetchFile(
      server.url(), wanted_,
      [&](int64_t bytes) {
        if (bytes > 0 && refusal.empty()) refusal = Failure("http://127.0.0.1:1/");
      },
      Loopback());
  EXPECT_TRUE(Contains(refusal, "another process is writing it"));
  ExpectWhole();
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
