#include "folio/base/fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "tests/kit/expect.h"
#include "tests/kit/fields.h"

namespace folio {
namespace {

struct Config {
  bool flag = false;
  int64_t count = 3;
  double rate = 0.001;
  double share = 0;
  std::string name = "gpt2";
  std::string kind = "post";
  std::optional<bool> maybe_flag;
  std::optional<int64_t> maybe_count;

  std::vector<Field> Fields() {
    return {{"flag", &flag, "A flag."},
            {"count", &count, "A count.", 1, 8},
            {"rate", &rate, "A rate.", 0, 1},
            {"name", &name, "A name."},
            Field{"kind", &kind, "A kind."}.Choices({"pre", "post"}).WithFlag("--kind"),
            {"maybe_flag", &maybe_flag, "A flag or null."},
            {"maybe_count", &maybe_count, "A count or null.", 1},
            Field{"share", &share, "A share.", 0, 1}.MaxExcluded()};
  }
};

class Fields : public testing::Test {
 protected:
  const Field& Get(const std::string& key) { return FindField(fields_, key); }
  void Set(const std::string& key, const std::string& text) { SetField(Get(key), text, "test"); }
  std::string Text(const std::string& key) { return FieldText(Get(key)); }

  // The error of setting `key`; the value must be unchanged.
  Error Refusal(const std::string& key, const std::string& text) {
    const std::string before = Text(key);
    SCOPED_TRACE(key + " took '" + text + "'");
    const Error error = Refused([&] { Set(key, text); }, ErrorKind::kUsage);
    EXPECT_EQ(Text(key), before);
    EXPECT_TRUE(std::string(error.what()).starts_with("test:"));
    return error;
  }

  Config config_;
  std::vector<Field> fields_ = config_.Fields();
};

TEST_F(Fields, EveryTypeIsRead) {
  Set("flag", "true");
  Set("count", "8");
  Set("rate", "2.5e-4");
  Set("name", "a b=c");
  Set("kind", "pre");
  Set("maybe_flag", "false");
  Set("maybe_count", "9007199254740993");
  EXPECT_TRUE(config_.flag);
  EXPECT_EQ(config_.count, 8);
  EXPECT_EQ(config_.rate, 2.5e-4);
  EXPECT_EQ(config_.name, "a b=c");
  EXPECT_EQ(config_.kind, "pre");
  EXPECT_EQ(config_.maybe_flag, false);
  EXPECT_EQ(config_.maybe_count, 9007199254740993);
  EXPECT_EQ(Text("maybe_count"), "9007199254740993");
  Set("flag", "false");
  EXPECT_FALSE(config_.flag);
}

TEST_F(Fields, NullIsTheAbsentOptionalAndNothingElse) {
  EXPECT_EQ(Text("maybe_flag"), "null");
  Set("maybe_flag", "true");
  EXPECT_EQ(Text("maybe_flag"), "true");
  Set("maybe_flag", "null");
  EXPECT_FALSE(config_.maybe_flag.has_value());
  Set("maybe_count", "2");
  Set("maybe_count", "null");
  EXPECT_FALSE(config_.maybe_count.has_value());
  for (const char* key : {"flag", "count", "rate", "kind"}) Refusal(key, "null");
  Set("name", "null");
  EXPECT_EQ(config_.name, "null");
}

TEST_F(Fields, WhatDoesNotParseWholeIsRefused) {
  for (const char* text : {"", " ", "1", "yes", "True", "true "}) Refusal("flag", text);
  for (const char* text : {"", "x", "1.5", "3 ", " 3", "+3", "1e1", "0x4", "9223372036854775808"}) {
    Refusal("count", text);
  }
  for (const char* text : {"", "x", "0.1.2", "0,1", "0.5 ", "nan", "inf", "1e999"}) {
    Refusal("rate", text);
  }
  for (const char* text : {"", "Pre", "pre,post"}) Refusal("kind", text);
  Refusal("maybe_flag", "");
  Refusal("maybe_count", "none");
}

TEST_F(Fields, BoundsAreInclusive) {
  for (const char* text : {"1", "8"}) Set("count", text);
  for (const char* text : {"0", "1.0", "1"}) Set("rate", text);
  for (const char* text : {"0", "9", "-1"}) {
    EXPECT_EQ(Refusal("count", text).cause(), "expected an integer from 1 to 8");
  }
  for (const char* text : {"-1e-300", "1.0000000000000002"}) {
    EXPECT_EQ(Refusal("rate", text).cause(), "expected a finite number from 0 to 1");
  }
  EXPECT_EQ(Refusal("maybe_count", "0").cause(), "expected null or an integer of at least 1");
}

TEST_F(Fields, AnExcludedBoundIsNot) {
  for (const char* text : {"0", "0.5", "0.9999999999999999"}) Set("share", text);
  for (const char* text : {"1", "1.5", "-0.1"}) {
    EXPECT_EQ(Refusal("share", text).cause(),
              "expected a finite number from 0 up to but not including 1");
  }
}

TEST_F(Fields, ErrorsNameTheChoicesAndTheNearest) {
  const Error error = Refusal("kind", "posst");
  EXPECT_EQ(error.cause(), "expected one of pre, post");
  EXPECT_EQ(error.help(), "did you mean 'post'?");
}

TEST_F(Fields, TypesAreSpelledOut) {
  const std::vector<std::string> types = {"true|false", "integer",         "number",      "text",
                                          "pre|post",   "true|false|null", "integer|null"};
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(FieldType(fields_[i]), types[i]);
  EXPECT_EQ(fields_[4].flag, "--kind");
}

TEST_F(Fields, NumbersReadBackTheSame) {
  double value = 0;
  const Field field{"x", &value, ""};
  const auto round_trip = [&](double x) {
    value = x;
    const std::string text = FieldText(field);
    value = 12345;
    SetField(field, text, "test");
    EXPECT_EQ(value, x) << text;
    EXPECT_EQ(std::signbit(value), std::signbit(x));
  };
  using Limits = std::numeric_limits<double>;
  for (double x : {0.0, -0.0, 0.1, 1.0 / 3, 1e22, 6e-4, 1e-5, 123456789.0, Limits::max(),
                   Limits::min(), Limits::denorm_min(), Limits::lowest()}) {
    round_trip(x);
  }
  const CounterRng rng(1, 1);
  for (uint64_t i = 0; i < 2000; ++i) {
    round_trip(rng.Normal(i) * std::pow(10.0, static_cast<double>(rng.Below(i + 5000, 600)) - 300));
  }
}

TEST_F(Fields, NumbersAreWrittenShortly) {
  config_.rate = 0.1;
  EXPECT_EQ(Text("rate"), "0.1");
  config_.rate = 1;
  EXPECT_EQ(Text("rate"), "1");
  config_.rate = 1e-5;
  EXPECT_EQ(Text("rate"), "1e-05");
}

TEST_F(Fields, PrefixedFieldsReachTheSameValues) {
  const std::vector<Field> prefixed = WithPrefix("model.", fields_);
  SetField(FindField(prefixed, "model.count"), "5", "test");
  EXPECT_EQ(config_.count, 5);
  EXPECT_EQ(prefixed[4].choices, fields_[4].choices);
  EXPECT_THROW(FindField(prefixed, "count"), std::out_of_range);
}

}  // namespace
}  // namespace folio
