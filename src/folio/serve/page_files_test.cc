#include "folio/serve/page_files.h"

#include <algorithm>
#include <cmath>

#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/serve/test_service.h"
#include "tests/kit/directory.h"

namespace folio {
namespace {

// "hello, page\n", compressed.
constexpr char kGzip[] =
    "\x1F\x8B\x08\x00\x00\x00\x00\x00\x02\x03\xCB\x48\xCD\xC9\xC9\xD7\x51\x28\x48\x4C\x4F\xE5\x02"
    "\x00\x94\x4F\x71\xCC\x0C\x00\x00\x00";
const PageFile kFile = {"/app.js", "text/javascript; charset=utf-8", "abc",
                        std::string_view(kGzip, sizeof kGzip - 1)};

HttpReply AskFor(const std::string& encodings, const std::string& known = "",
                 const std::string& method = "GET") {
  HttpRequest request{.method = method, .path = "/app.js", .body = "", .client = "me"};
  request.header = [&](const std::string& name) {
    if (name == "Accept-Encoding") return encodings;
    return name == "If-None-Match" ? known : std::string();
  };
  return AnswerPageFile(kFile, request);
}

std::string HeaderOf(const HttpReply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(PageFilesTest, ArePackedForWhomTakesThat) {
  for (const char* takes : {"gzip", "br, GZIP;q=0.5", "*", "gzip;q=1, *;q=0", "deflate,x-gzip"}) {
    const HttpReply reply = AskFor(takes);
    EXPECT_EQ(HeaderOf(reply, "Content-Encoding"), "gzip") << takes;
    EXPECT_EQ(reply.body, kFile.gzip);
  }
  for (const char* takes : {"", "br", "gzip;q=0", "*;q=0", "gzip; q=0.0, *", "identity"}) {
    const HttpReply reply = AskFor(takes);
    EXPECT_EQ(HeaderOf(reply, "Content-Encoding"), "") << takes;
    EXPECT_EQ(reply.body, "hello, page\n");
  }
}

TEST(PageFilesTest, AreKeptByTheirTagAndAskedForAgain) {
  const HttpReply packed = AskFor("gzip"), plain = AskFor("");
  EXPECT_EQ(HeaderOf(packed, "Cache-Control"), "no-cache");
  EXPECT_EQ(HeaderOf(packed, "Vary"), "Accept-Encoding");
  EXPECT_NE(HeaderOf(packed, "ETag"), HeaderOf(plain, "ETag"));
  EXPECT_EQ(AskFor("gzip", HeaderOf(packed, "ETag")).status, 304);
  EXPECT_EQ(AskFor("gzip", "\"x\", W/" + HeaderOf(packed, "ETag")).body, "");
  EXPECT_EQ(AskFor("gzip", HeaderOf(plain, "ETag")).status, 200);
}

TEST(PageFilesTest, LetNothingOfOtherOriginsIn) {
  const std::string policy = HeaderOf(AskFor("gzip"), "Content-Security-Policy");
  for (const char* rule : {"default-src 'self'", "object-src 'none'", "frame-ancestors 'none'"}) {
    EXPECT_NE(policy.find(rule), std::string::npos) << rule;
  }
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(AskFor("gzip", "", "POST").status, 405);
}

TEST(PageFilesTest, AreFoundByTheirWholeAddressAlone) {
  EXPECT_EQ(FindPageFile("/"), FindPageFile("/index.html"));
  for (const char* path : {"", "index.html", "/nothing", "/index.html/", "/../index.html", "//"}) {
    EXPECT_EQ(FindPageFile(path), nullptr) << path;
  }
}

class PageItself : public PageTest {};

TEST_F(PageItself, IsServedWithoutAKey) {
  ServiceOptions options;
  options.access.keys = ParseKeys("secret", "the test");
  Serve(options);
  EXPECT_EQ(Ask("GET", "/api/info").status, 401);
  if (PageFiles().empty()) {
    EXPECT_EQ(Ask("GET", "/").status, 401);
    GTEST_SKIP() << "this program has no page";
  }
  for (const PageFile& file : PageFiles()) {
    const auto plain = client_->Get(std::string(file.path));
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain.status, 200) << file.path;
    EXPECT_EQ(plain.header("Content-Encoding"), "");
    EXPECT_EQ(plain.header("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(plain.header("Content-Type"), file.type);
    const auto packed = client_->Get(std::string(file.path), {{"Accept-Encoding", "gzip"}});
    ASSERT_TRUE(packed);
    EXPECT_EQ(packed.header("Content-Encoding"), "gzip");
    EXPECT_EQ(packed.body, file.gzip);
    EXPECT_NE(plain.body, packed.body);
  }
  EXPECT_TRUE(Ask("GET", "/").type.starts_with("text/html"));
  EXPECT_EQ(Ask("POST", "/", "{}").status, 405);
}

class PageNumbersTest : public InTemporaryDirectory {};

TEST_F(PageNumbersTest, AreAFileOfSafetensors) {
  const std::vector<int16_t> row = {1, -2, 300};
  const std::vector<float> pair = {1, -0.5F};
  WriteFileAtomically(At("numbers"),
                      PageNumbers(Json{{"scale", 0.5}, {"pool", nullptr}}).Add({3}, row).bytes());
  EXPECT_EQ(SafetensorsFile(At("numbers")).metadata(),
            (SafetensorsMetadata{{"scale", "0.5"}, {"pool", "null"}}));
  const std::string bytes =
      PageNumbers().Add({1, 2}, pair).Add({2}, std::span<const float>(pair), "again").bytes();
  WriteFileAtomically(At("pairs"), bytes);
  SafetensorsFile pairs(At("pairs"));
  for (const char* name : {"numbers", "again"}) {
    const Tensor tensor = pairs.Get(name);
    EXPECT_EQ(tensor.count(), 2);
    EXPECT_EQ(std::vector(tensor.data<float>(), tensor.data<float>() + 2), pair);
  }
  EXPECT_EQ((bytes.size() - 2 * sizeof(pair[0]) * 2) % 8, 0u) << "numbers lie aligned";
}

TEST_F(PageNumbersTest, RootsTellSmallWeightsApart) {
  EXPECT_EQ(SqrtByte(0), 0);
  EXPECT_EQ(SqrtByte(1), 255);
  EXPECT_EQ(SqrtByte(1.0001F), 255);
  EXPECT_EQ(SqrtByte(0.25F), 128);
  EXPECT_EQ(SqrtByte(1e-5F), 1);
  EXPECT_EQ(SqrtByte(-1), 0);
  EXPECT_EQ(SqrtByte(std::nanf("")), 0);
  for (int byte = 0; byte < 256; ++byte) {
    const double p = byte / 255.0;
    EXPECT_EQ(SqrtByte(static_cast<float>(p * p)), byte);
  }
}

TEST(ShortNumbers, HaveSixDigitsAndNamesForWhatJsonLacks) {
  EXPECT_EQ(ShortNumber(-1.23456789).dump(), "-1.23457");
  EXPECT_EQ(ShortNumber(1e-30).dump(), "1e-30");
  EXPECT_EQ(ShortNumber(std::nan("")), "nan");
  EXPECT_EQ(ShortNumber(-HUGE_VAL), "-inf");
}

}  // namespace
}  // namespace folio
