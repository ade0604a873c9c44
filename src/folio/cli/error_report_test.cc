#include "folio/cli/error_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>

#include "folio/base/error.h"

namespace folio {
namespace {

TEST(ErrorReport, HasThreePartsAndLeavesEmptyOnesOut) {
  const Error full(ErrorKind::kInput, "no model in runs/x", "looked for a\nand for b", "train one");
  EXPECT_EQ(RenderError(DescribeError(full), {}),
            "error: no model in runs/x\n  looked for a\n  and for b\n  help: train one");
  EXPECT_EQ(RenderError(DescribeError(UsageError("bad flag")), {}), "error: bad flag");
}

TEST(ErrorReport, ColorsOnlyTheLabels) {
  EXPECT_EQ(RenderError(DescribeError(UsageError("w", "c", "h")), {.color = true}),
            "\x1b[1;31merror:\x1b[0m w\n  c\n  \x1b[1;36mhelp:\x1b[0m h");
}

TEST(ErrorReport, EachKindHasItsStatusAndName) {
  const auto status = [](ErrorKind kind) { return DescribeError(Error(kind, "x")).status; };
  EXPECT_EQ(status(ErrorKind::kRuntime), 1);
  EXPECT_EQ(status(ErrorKind::kUsage), 2);
  EXPECT_EQ(status(ErrorKind::kInput), 3);
  EXPECT_EQ(status(ErrorKind::kResource), 4);
  EXPECT_EQ(status(ErrorKind::kDiverged), 5);
  EXPECT_EQ(DescribeError(Error(ErrorKind::kDiverged, "x")).kind, "diverged");
  EXPECT_EQ(DescribeError(std::bad_alloc()).status, 4);
  EXPECT_EQ(DescribeError(std::runtime_error("boom")).status, 1);
  EXPECT_EQ(DescribeError(std::filesystem::filesystem_error(
                              "rename", std::make_error_code(std::errc::no_space_on_device)))
                .status,
            1);
}

TEST(ErrorReport, JsonIsOneLineEvenForBytesThatAreNotText) {
  EXPECT_EQ(RenderErrorJson(DescribeError(InputError("bad \xff", "c\nd", "h"))),
            R"({"error":{"cause":"c\nd","code":3,"hint":"h","kind":"input","message":"bad )"
            "\xEF\xBF\xBD"
            R"("},"schema":1})");
}

}  // namespace
}  // namespace folio
