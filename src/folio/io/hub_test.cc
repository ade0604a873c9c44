#include "folio/io/hub.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "folio/base/error.h"
#include "folio/io/checksums.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/test_hub.h"

namespace folio {
namespace {

// With its own HF_ENDPOINT and HF_TOKEN.
class HubTest : public InTemporaryDirectory {
 protected:
  ~HubTest() override {
    unsetenv("HF_ENDPOINT");
    unsetenv("HF_TOKEN");
  }
  static Hub Of(const std::string& endpoint, const char* token = "") {
    setenv("no_proxy", "*", 1);
    setenv("HF_ENDPOINT", endpoint.c_str(), 1);
    setenv("HF_TOKEN", token, 1);
    return Hub::OfEnvironment();
  }
  // Why a list with such an entry is refused.
  static std::string Refusal(const std::string& entry) {
    TestHub hub(TestHub::Files{{"config.json", {"{}"}}});
    hub.AddEntry(entry);
    return ErrorOf([&] { ListRepository(Of(hub.url()), "some/model"); }, ErrorKind::kInput);
  }
};

TEST_F(HubTest, AllPagesOfTheListAreRead) {
  const TestHub hub(
      TestHub::Files{{"config.json", {"{}"}}, {"model.safetensors", {"abc", true}}, {"z", {""}}});
  const std::vector<HubFile> files = ListRepository(Of(hub.url()), "some/model");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].path, "config.json");
  EXPECT_EQ(files[0].hash, "");
  EXPECT_EQ(files[1].bytes, 3);
  EXPECT_EQ(files[1].hash, Sha256Hex("abc"));
}

TEST_F(HubTest, NamesThatLeadElsewhereAreRefused) {
  for (const char* path : {"../out", "a/../../out", "/etc/passwd", "a//b", "..\\\\out", "a/",
                           "C:\\\\x", "a\\u0000b", "a\\nb", ""}) {
    const std::string entry =
        fmt::format(R"({{"type":"file","path":"{}","size":1,"oid":"0"}})", path);
    EXPECT_TRUE(Contains(Refusal(entry), "some/model", "not a relative file name")) << path;
  }
}

TEST_F(HubTest, AListThatIsNotSoundIsRefused) {
  EXPECT_TRUE(Contains(Refusal(R"({"type":"file","path":"a"})"), "a has no size"));
  EXPECT_TRUE(Contains(Refusal(R"({"type":"file","path":"a","size":-1})"), "no size"));
  EXPECT_TRUE(Contains(Refusal(R"({"type":"file","path":"a","size":1e30})"), "no size"));
  EXPECT_TRUE(Contains(Refusal(R"({"size":1})"), "no path"));
  EXPECT_TRUE(Contains(Refusal("[]"), "not an object"));
}

TEST_F(HubTest, TheNextPageIsOfTheSameServer) {
  const AnsweringServer elsewhere([](const std::string&) { return TestHub::Ok("[]"); });
  const AnsweringServer hub([&](const std::string&) {
    return TestHub::Ok("[]", fmt::format("Link: <{}/x>; rel=\"next\"\r\n", elsewhere.url()));
  });
  const std::string error =
      ErrorOf([&] { ListRepository(Of(hub.url()), "some/model"); }, ErrorKind::kInput);
  EXPECT_TRUE(Contains(error, "on another server"));
  EXPECT_EQ(elsewhere.requests(), "");
}

TEST_F(HubTest, ARepositoryThatIsNotThereOrNotOpenIsNamed) {
  for (const auto& [status, part] : {std::pair{404, "there is no repository some/model"},
                                     std::pair{401, "HF_TOKEN"}, std::pair{403, "HF_TOKEN"}}) {
    const AnsweringServer hub(
        [status = status](const std::string&) { return TestHub::Failure(status); });
    const Error error =
        Refused([&] { ListRepository(Of(hub.url()), "some/model"); }, ErrorKind::kInput);
    EXPECT_TRUE(Contains(std::string(error.what()) + error.help(), part));
  }
}

TEST_F(HubTest, TheTokenGoesToTheHubAlone) {
  const TestHub hub(TestHub::Files{{"model.safetensors", {"abc", true}}});
  const Hub with = Of(hub.url(), "hf_secret");
  ListRepository(with, "some/model");
  const WantedFile wanted = {At("file"), Sha256Hex("abc"), 3};
  FetchFile(
      AddressOf(with, "some/model", "model.safetensors"), wanted, [](int64_t) {}, with.limits);
  EXPECT_TRUE(IsThere(wanted));
  EXPECT_EQ(Count(hub.asked_of_hub(), "Authorization: Bearer hf_secret\r\n"), 3);
  EXPECT_NE(hub.asked_of_store(), "");
  EXPECT_EQ(hub.asked_of_store().find("hf_secret"), std::string::npos);
}

TEST_F(HubTest, TheTokenDoesNotGoOverTheNetworkInTheClear) {
  EXPECT_TRUE(Contains(ErrorOf([] { Of("http://hub.example", "hf_secret"); }, ErrorKind::kUsage),
                       "unencrypted"));
  Refused([] { Of("https://hub.example", "hf_\r\nX: y"); }, ErrorKind::kUsage);
  Refused([] { Of("ftp://hub.example"); }, ErrorKind::kUsage);
  EXPECT_EQ(Of("https://hub.example/").endpoint, "https://hub.example");
}

TEST(HubNames, AreOwnerAndName) {
  for (const char* name : {"a/b", "Qwen/Qwen2.5-0.5B", "x_1/y-2.z"}) {
    EXPECT_TRUE(IsRepositoryName(name)) << name;
  }
  for (const char* name : {"a", "a/", "/b", "a/b/c", "../b", "a/..", ".a/b", "a/.b", "a/b..c",
                           "a b/c", "a/b?x", "-a/b", "a\\b/c"}) {
    EXPECT_FALSE(IsRepositoryName(name)) << name;
  }
}

TEST_F(HubTest, AddressesAreEncoded) {
  EXPECT_EQ(AddressOf(Of("https://hub.example"), "a/b", "c d/ä#.gguf"),
            "https://hub.example/a/b/resolve/main/c%20d/%C3%A4%23.gguf");
}

// git hash-object of "abc".
TEST_F(HubTest, FilesAreComparedWithGitsHashToo) {
  const AnsweringServer server([](const std::string&) { return TestHub::Ok("abc"); });
  WantedFile wanted = {At("file"), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f", 3};
  const FetchLimits limits = {.schemes = "http"};
  FetchFile(
      server.url(), wanted, [](int64_t) {}, limits);
  EXPECT_TRUE(IsThere(wanted));
  wanted.hash.back() = '0';
  EXPECT_FALSE(IsThere(wanted));
  Refused(
      [&] {
        FetchFile(
            server.url(), wanted, [](int64_t) {}, limits);
      },
      ErrorKind::kInput);
}

TEST_F(HubTest, WithoutAHashTheSizeIsCompared) {
  const AnsweringServer server([](const std::string&) { return TestHub::Ok("abc"); });
  const FetchLimits limits = {.schemes = "http"};
  Refused(
      [&] {
        FetchFile(
            server.url(), {At("file"), "", 4}, [](int64_t) {}, limits);
      },
      ErrorKind::kInput);
  FetchFile(
      server.url(), {At("file"), "", 3}, [](int64_t) {}, limits);
  EXPECT_TRUE(IsThere({At("file"), "", 3}));
  EXPECT_FALSE(IsThere({At("file"), "", 4}));
}

}  // namespace
}  // namespace folio
