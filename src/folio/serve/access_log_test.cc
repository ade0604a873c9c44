#include "folio/serve/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/full_disk.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

class AccessLogTest : public InTemporaryDirectory {
 protected:
  AccessLogTest() { std::signal(SIGPIPE, SIG_IGN); }  // as the program does
  std::string Text(const char* name) const { return ReadFile(At(name)); }

  AccessLogEntry request_{.time = LogTime(),
                          .id = "req-1",
                          .client = "192.0.2.1",
                          .key = "team",
                          .method = "GET",
                          .path = UrlText("/a\nb\xC2\x9B\xE2\x80\xAE"),
                          .status = 404,
                          .seconds = 0.25};
};

TEST_F(AccessLogTest, HasARequestALine) {
  AccessLog log(At("log").string());
  log.Write(request_);
  log.Write({.time = LogTime(), .id = "req-2", .status = 400, .refusal = "no HTTP"});
  const std::vector<std::string> lines = Split(Text("log"), '\n');
  ASSERT_EQ(lines.size(), 3u);
  const Json line = ParseJson(lines[0], "the log");
  EXPECT_EQ(line["time"].text().size(), 24u);
  EXPECT_TRUE(line["time"].text().starts_with("20") && line["time"].text().ends_with("Z"));
  EXPECT_EQ(lines[0].substr(lines[0].find(",\"id\"")),
            ",\"id\":\"req-1\",\"client\":\"192.0.2.1\",\"key\":\"team\",\"method\":\"GET\","
            "\"path\":\"/a%0Ab%C2%9B%E2%80%AE\",\"status\":404,\"seconds\":0.25}");
  EXPECT_EQ(ParseJson(lines[1], "the log")["refusal"].text(), "no HTTP");
}

TEST_F(AccessLogTest, GoesOnInANewFile) {
  AccessLog log(At("log").string());
  log.Write(request_);
  std::filesystem::rename(At("log"), At("log.1"));
  log.Write(request_);
  EXPECT_FALSE(std::filesystem::exists(At("log")));
  log.Reopen();
  log.Write(request_);
  EXPECT_EQ(Count(Text("log.1"), "\n"), 2u);
  EXPECT_EQ(Count(Text("log"), "\n"), 1u);
  // Where that cannot be, the old one goes on.
  std::filesystem::remove(At("log"));
  std::filesystem::create_directories(At("log"));
  const Warnings warnings;
  log.Reopen();
  EXPECT_TRUE(Contains(warnings.text(), "old file"));
}

TEST_F(AccessLogTest, AFullDiskIsToldOnce) {
  AccessLog log(At("log").string());
  log.Write(request_);
  const size_t one = Text("log").size();
  {
    const FullDisk full(one + 10);
    const Warnings warnings;
    for (int i = 0; i < 5; ++i) log.Write(request_);
    EXPECT_EQ(Count(warnings.text(), "log of requests is not written"), 1u) << warnings.text();
  }
  log.Write(request_);
  const std::vector<std::string> lines = Split(Text("log"), '\n');
  ASSERT_EQ(lines.size(), 4u) << "a line, a torn one, and the last";
  EXPECT_EQ(lines[2].size() + 1, one) << "which is whole";
}

TEST_F(AccessLogTest, NobodyWaitsForAPipe) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { AccessLog(At("pipe").string()); }, ErrorKind::kRuntime),
                       "nobody reads it"));
  const int reader = open(At("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  AccessLog log(At("pipe").string());
  {
    const Warnings warnings;
    for (int i = 0; i < 1000; ++i) log.Write(request_);  // more than the pipe holds
    EXPECT_EQ(Count(warnings.text(), "nobody reads it"), 1u) << warnings.text();
  }
  std::string read(1 << 20, '\0');
  const ssize_t count = ::read(reader, read.data(), read.size());
  ASSERT_GT(count, 0);
  EXPECT_EQ(read[static_cast<size_t>(count) - 1], '\n') << "lines are whole";
  close(reader);
  const Warnings warnings;
  log.Write(request_);
  log.Reopen();
  EXPECT_TRUE(Contains(warnings.text(), "old file"));
  log.Write(request_);
}

TEST_F(AccessLogTest, WhatCannotBeOneIsSaid) {
  for (const std::string& bad : {std::string(), At("none/log").string(), At("").string()}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { AccessLog log(bad); }, ErrorKind::kRuntime),
                         "cannot write the log"));
  }
}

}  // namespace
}  // namespace folio
