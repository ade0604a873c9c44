#include "folio/io/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/kit/expect.h"

namespace folio {
namespace {

std::string Refusal(const std::string& text) {
  return ErrorOf([&] { ParseJson(text, "x.json"); });
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":[1,-2,18446744073709551615,0.5,1e-300],"a":{"":null,"t":true,"f":false},"m":[[],{}],)"
      R"("s":"é\n\u00e9\ud83d\ude00"})";
  const auto value = ParseJson(text, "x");
  EXPECT_EQ(value.dump(), nlohmann::ordered_json::parse(text).dump());
  EXPECT_EQ(value.items().front().key, "z");
  EXPECT_EQ(value["z"][2].get<uint64_t>(), UINT64_MAX);
}

TEST(ParseJson, NumbersHaveTheDigitsThatFilesHad) {
  std::vector<double> numbers = {
      0.0, -0.0,     1e15,  1e16,   123456789012345,       1e-4, 1e-5, 5e-324,
      NAN, INFINITY, 1e100, 9.5e-7, 1.7976931348623157e308};
  std::mt19937_64 random(1);
  while (numbers.size() < 30000) {
    numbers.push_back(std::bit_cast<double>(random()));
    numbers.push_back(
        std::ldexp(static_cast<double>(random() % 2000000), -static_cast<int>(random() % 60)));
    numbers.push_back(std::ldexp(-1.0, static_cast<int>(random() % 2000) - 1074));
  }
  for (const double number : numbers) {
    const std::string text = Json(number).dump();
    EXPECT_EQ(text, nlohmann::json(number).dump());
    EXPECT_TRUE(!std::isfinite(number) || ParseJson(text, "x").get<double>() == number) << text;
  }
}

TEST(ParseJson, KeepsManyMembersWhileTheirObjectGrows) {
  std::string text = "{";
  for (int i = 0; i < 3001; ++i) {
    text += fmt::format(R"("k{0}":{{"v":[{0}]}},)", i);
  }
  text.back() = '}';
  const auto value = ParseJson(text, "x");
  int i = 0;
  for (const auto& [key, member] : value.items()) {
    ASSERT_EQ(key, fmt::format("k{}", i));
    ASSERT_EQ(member["v"][0].get<int>(), i);
    ++i;
  }
  EXPECT_EQ(i, 3001);
}

TEST(ParseJson, RefusesRepeatedKeysAtTheirPlace) {
  EXPECT_TRUE(Contains(Refusal("{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2}}"),
                       "x.json:2:19: not valid JSON", "\"c\""));
  // The same key in another spelling.
  EXPECT_TRUE(Contains(Refusal(R"({"a":1,"\u0061":2})"), "\"a\""));
  // The same key in two objects is allowed.
  EXPECT_EQ(ParseJson(R"([{"a":1},{"a":{"a":2}}])", "x").size(), 2u);
}

TEST(ParseJson, RefusesDeepNesting) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_NO_THROW(ParseJson(nested(kMaxJsonDepth), "x"));
  EXPECT_TRUE(Contains(Refusal(nested(kMaxJsonDepth + 1)), "deeper"));
  EXPECT_TRUE(Contains(Refusal(std::string(1000000, '[')), "deeper"));
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const std::string text :
       {"",         " ",      "{",          "[1,]",      "{\"a\":1,}", "{'a':1}", "// c\n1",
        "nul",      "NaN",    "Infinity",   "1 2",       "[01]",       "+1",      "1e999",
        "\"\xff\"", "\"\n\"", "\"\\ud80\"", "{\"a\" 1}", "{1:2}",      "]"}) {
    EXPECT_TRUE(Contains(Refusal(text), "x.json:")) << text;
  }
  // A zero byte ends nothing.
  EXPECT_TRUE(Contains(Refusal(std::string("1\0", 2)), "x.json:1:2"));
  EXPECT_TRUE(Contains(Refusal(std::string("\n{}\0{", 5)), "x.json:2:3"));
}

// tiktoken's result for a Python text with one: encode("utf-16", "surrogatepass"), then
// decode("utf-16", "replace").
TEST(ParseJson, HalfASurrogatePairIsTheReplacementCharacter) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("\ud83d")", "\uFFFD"},
      {R"("a\uDE00b")", "a\uFFFDb"},
      {R"("\ud83d\u0041")", "\uFFFDA"},
      {R"("\ud83d\ud83d\ude00")", "\uFFFD\U0001F600"},
      {R"("\ude00\ud83d")", "\uFFFD\uFFFD"},
      {R"("\ud83d\n")", "\uFFFD\n"},
      {R"("\ud83d\ude00")", "\U0001F600"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(ParseJson(text, "x").text(), expected) << text;
  }
  EXPECT_TRUE(Contains(Refusal(R"("\ud83d\u00g0")"), "four hexadecimal digits"));
}

TEST(ParseJson, SaysLineAndColumn) {
  EXPECT_TRUE(Contains(Refusal("{\n  \"a\": 1,\n  \"b\": x\n}"), "x.json:3:8: not valid JSON"));
  EXPECT_TRUE(Contains(Refusal("[1"), "x.json:1:3"));
}

}  // namespace
}  // namespace folio
