#include "folio/corpus/table_filter.h"

#include <gtest/gtest.h>

#include <string>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// The table as lines of JSON, however it comes in pieces.
std::string Lines(const std::string& table, char delimiter = ',') {
  std::string whole;
  TableFilter filter(delimiter, "t.csv");
  filter.Convert(table, whole);
  filter.Finish(whole);
  std::string parts;
  TableFilter by_bytes(delimiter, "t.csv");
  for (const char c : table) by_bytes.Convert({&c, 1}, parts);
  by_bytes.Finish(parts);
  EXPECT_EQ(parts, whole);
  return whole;
}

TEST(TableFilter, RowsBecomeObjects) {
  EXPECT_EQ(Lines("a,b\n1,2\n"), "{\"a\":\"1\",\"b\":\"2\"}\n");
  EXPECT_EQ(Lines("a,b\r\n1,\r\n,2"), "{\"a\":\"1\",\"b\":\"\"}\n{\"a\":\"\",\"b\":\"2\"}\n");
  EXPECT_EQ(Lines("a\rx\ry\r"), "{\"a\":\"x\"}\n{\"a\":\"y\"}\n");
  EXPECT_EQ(Lines("a\n\nx\n\n"), "{\"a\":\"x\"}\n") << "blank rows are left out";
  EXPECT_EQ(Lines("a\tb\n1,0\t2\n", '\t'), "{\"a\":\"1,0\",\"b\":\"2\"}\n");
  EXPECT_EQ(Lines("a,b\n"), "");
}

TEST(TableFilter, QuotedFieldsHoldAnything) {
  EXPECT_EQ(Lines("\"a,\"\"\",b\n\"x\ny, \"\"z\"\"\",\"\"\n"),
            "{\"a,\\\"\":\"x\\u000ay, \\\"z\\\"\",\"b\":\"\"}\n");
  EXPECT_EQ(Lines("a\nx \"y\" \\\n"), "{\"a\":\"x \\\"y\\\" \\\\\"}\n");
  EXPECT_EQ(Lines("a\n\"x\r\ny\"\r\n"), "{\"a\":\"x\\u000d\\u000ay\"}\n");
}

TEST(TableFilter, WhatIsWrongIsSaidWithItsRow) {
  const auto refused = [](const std::string& table, const char* cause) {
    EXPECT_TRUE(Contains(ErrorOf([&] { Lines(table); }), "t.csv: not a table", cause)) << table;
  };
  refused("a,b\n1,2\n1\n", "row 2: it has 1 fields, the header has 2");
  refused("a,b\n1,2,3\n", "row 1: it has more than the 2 fields");
  refused("a\n\"x\n", "row 1: a quoted field is not closed");
  refused("a\n\"x\"y\n", "row 1: unexpected text after the closing quote");
  refused("a,a\n", "two columns have the name \"a\"");
  refused("", "empty");
  refused(std::string(2 << 20, 'x'), "longer than 1 MiB");
}

TEST(TableFilter, DelimitersAreSeenInTheHeader) {
  EXPECT_EQ(FindDelimiter("a,b;c\n"), ',');
  EXPECT_EQ(FindDelimiter("a;b\n1,5;2\n"), ';');
  EXPECT_EQ(FindDelimiter("a\tb\n"), '\t');
  EXPECT_EQ(FindDelimiter("\"a,b\"|c\n"), '|');
  EXPECT_EQ(FindDelimiter("a\nb,c\n"), ',');
}

}  // namespace
}  // namespace folio
