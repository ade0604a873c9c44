#include "folio/serve/access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "folio/base/strings.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/serve/access_log.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/full_disk.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

class KeyFiles : public InTemporaryDirectory {};

// SHA-256 of "abc", as FIPS 180-4 has it.
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_F(KeyFiles, HaveAKeyALine) {
  WriteFileAtomically(At("keys"), "# ours\n\n  \nfirst key \r\nteam-1:another\nhashed:sha256:" +
                                      std::string(kOfAbc) + "\nsha256:" + Sha256Hex("bare"));
  chmod(At("keys").c_str(), 0600);
  const AccessKeys keys = ReadKeys(At("keys").string());
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(NameOfKey(keys, "first key"), "key-4") << "by its line";
  EXPECT_EQ(NameOfKey(keys, "another"), "team-1");
  EXPECT_EQ(NameOfKey(keys, "abc"), "hashed");
  EXPECT_EQ(NameOfKey(keys, "bare"), "key-7");
  for (const std::string& none :
       {std::string(), std::string("team-1:another"), std::string("team-1"), std::string("anothe"),
        std::string("anotherr"), std::string(kOfAbc), "sha256:" + std::string(kOfAbc)}) {
    EXPECT_EQ(NameOfKey(keys, none), std::nullopt) << none;
  }
  for (const AccessKey& key : keys) EXPECT_FALSE(Contains(key.sha256, "another"));
}

TEST_F(KeyFiles, BadLinesAreToldByTheirNumber) {
  const auto error = [](const std::string& text) {
    return ErrorOf([&] { ParseKeys(text, "keys"); });
  };
  EXPECT_TRUE(ParseKeys("# nothing\n\n", "keys").empty());
  for (const char* bad : {"a name:secret", ":secret", "name:", "name:sec:ret", "name:sha256:12",
                          "sha256:", "n\xC3\xA9:secret", "name\x1b:secret"}) {
    const std::string told = error("good\n" + std::string(bad));
    EXPECT_TRUE(Contains(told, "keys, line 2")) << bad;
    EXPECT_EQ(told.find("sec"), told.npos) << "a key is not shown: " << told;
  }
  EXPECT_TRUE(Contains(error("name:sha256:" + std::string(64, 'x')), "64 hexadecimal digits"));
}

TEST_F(KeyFiles, ThatOthersCanReadAreWarnedOf) {
  WriteFileAtomically(At("keys"), "secret");
  const auto warned = [&](mode_t mode) {
    chmod(At("keys").c_str(), mode);
    Warnings warnings;
    ReadKeys(At("keys").string());
    return warnings.text();
  };
  EXPECT_EQ(warned(0600), "");
  EXPECT_TRUE(Contains(warned(0604), "other users can read", "chmod 600"));
  EXPECT_EQ(warned(0602), "");
  if (chown(At("keys").c_str(), static_cast<uid_t>(-1), 1) != 0) {
    GTEST_SKIP() << "files of other groups are made by root alone";
  }
  EXPECT_TRUE(Contains(warned(0640), "other users can read"));
}

TEST(AddressBlocks, HaveTheAddressesThatBeginAlike) {
  const auto has = [](const char* block, const char* address) {
    return AddressBlock(block, "--flag").Has(address);
  };
  EXPECT_TRUE(has("127.0.0.1", "127.0.0.1"));
  EXPECT_TRUE(has("127.0.0.1", "::ffff:127.0.0.1"));
  EXPECT_FALSE(has("127.0.0.1", "127.0.0.2"));
  EXPECT_TRUE(has("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(has("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(has("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(has("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(has("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(has("0.0.0.0/0", "::1"));
  EXPECT_TRUE(has("::1", "::1"));
  EXPECT_TRUE(has("fd00::/8", "fdff::1"));
  EXPECT_FALSE(has("fd00::/8", "fe00::1"));
  EXPECT_TRUE(has("::/0", "1.2.3.4"));
  for (const char* none : {"", "localhost", "1.2.3", "1.2.3.4:80", "unknown"}) {
    EXPECT_FALSE(has("::/0", none)) << none;
  }
}

TEST(AddressBlocks, NothingElseIsOne) {
  for (const char* bad : {"", "/8", "localhost", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1",
                          "10.0.0.0/8x", "10.0.0.0/8/8", "::1/129", "10.0.0", "1.2.3.4 "}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { AddressBlock(bad, "--flag"); }, ErrorKind::kUsage),
                         "--flag: '" + std::string(bad) + "'"));
  }
}

TEST(ClientAddresses, AreTheLastThatNoProxyHas) {
  const std::vector<AddressBlock> proxies = {AddressBlock("127.0.0.1", ""),
                                             AddressBlock("10.0.0.0/8", "")};
  const auto client = [&](const char* peer, const char* forwarded) {
    return ClientAddress(proxies, peer, forwarded);
  };
  EXPECT_EQ(client("127.0.0.1", "192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("::ffff:127.0.0.1", "192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("127.0.0.1", "192.0.2.1, 10.1.1.1 ,\t10.2.2.2"), "192.0.2.1");
  EXPECT_EQ(client("127.0.0.1", "2001:db8::7"), "2001:db8::7");
  // An address that a client gives itself stands before the one that a proxy gives it.
  EXPECT_EQ(client("127.0.0.1", "198.51.100.9, 192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("127.0.0.1", "127.0.0.1, 192.0.2.1"), "192.0.2.1");
  // Nothing is believed of a peer that is no proxy.
  EXPECT_EQ(client("192.0.2.5", "198.51.100.9"), "192.0.2.5");
  EXPECT_EQ(client("127.0.0.1", ""), "127.0.0.1");
  for (const char* none : {"unknown", "198.51.100.9, ", "_hidden", "192.0.2.1 10.1.1.1", ",",
                           "198.51.100.9,evil\n", "192.0.2.1:80"}) {
    EXPECT_EQ(client("127.0.0.1", none), "127.0.0.1") << none;
  }
  EXPECT_EQ(client("127.0.0.1", "10.3.3.3, 10.1.1.1"), "10.3.3.3") << "a proxy that asks itself";
  EXPECT_EQ(ClientAddress({}, "127.0.0.1", "192.0.2.1"), "127.0.0.1");
}

TEST(ClientAddresses, OfOneNetworkAreOneClient) {
  EXPECT_EQ(NetworkOf("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(NetworkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(NetworkOf("2001:db8:1:2::9"), "2001:db8:1:2::");
  EXPECT_NE(NetworkOf("2001:db8:1:3::9"), "2001:db8:1:2::");
  EXPECT_EQ(NetworkOf("me"), "me");
}

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
  // If that fails, the old one goes on.
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
    EXPECT_EQ(Count(warnings.text(), "cannot write the access log"), 1u) << warnings.text();
  }
  log.Write(request_);
  const std::vector<std::string> lines = Split(Text("log"), '\n');
  ASSERT_EQ(lines.size(), 4u) << "a line, a torn one, and the last";
  EXPECT_EQ(lines[2].size() + 1, one) << "which is whole";
}

TEST_F(AccessLogTest, NobodyWaitsForAPipe) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { AccessLog(At("pipe").string()); }, ErrorKind::kRuntime),
                       "a pipe without a reader"));
  const int reader = open(At("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  AccessLog log(At("pipe").string());
  {
    const Warnings warnings;
    for (int i = 0; i < 1000; ++i) log.Write(request_);  // more than the pipe holds
    EXPECT_EQ(Count(warnings.text(), "cannot write the access log"), 1u) << warnings.text();
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
