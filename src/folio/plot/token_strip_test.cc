#include "folio/plot/token_strip.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <vector>

#include "tests/kit/expect.h"

namespace folio {
namespace {

struct DrawnStrip {
  double x = 0, y = 0, width = 0, height = 0, radius = 0, opacity = 0;
};

std::vector<DrawnStrip> BoxesOf(const std::string& svg) {
  std::vector<DrawnStrip> boxes;
  for (size_t at = svg.find("<rect class=\"plus\""); at != std::string::npos;
       at = svg.find("<rect class=\"plus\"", at + 1)) {
    DrawnStrip box;
    if (std::sscanf(svg.c_str() + at,
                    "<rect class=\"plus\" x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\" "
                    "rx=\"%lf\" fill-opacity=\"%lf\"",
                    &box.x, &box.y, &box.width, &box.height, &box.radius, &box.opacity) == 6) {
      boxes.push_back(box);
    }
  }
  return boxes;
}

TEST(TokenStripSvg, LinesBreakWhereTheyAreFullOrAreTold) {
  std::vector<StripToken> tokens(40, {.text = "token"});
  tokens[2].line_break = true;
  const std::vector<DrawnStrip> boxes = BoxesOf(TokenStripSvg(tokens, {.width = 400}));
  ASSERT_EQ(boxes.size(), 40U);
  EXPECT_EQ(boxes[2].y, boxes[0].y);
  EXPECT_GT(boxes[3].y, boxes[2].y);
  EXPECT_EQ(boxes[3].x, boxes[0].x);
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_LE(boxes[i].x + boxes[i].width, 400);
    if (i > 0 && boxes[i].y == boxes[i - 1].y) {
      EXPECT_GE(boxes[i].x, boxes[i - 1].x + boxes[i - 1].width);
    }
  }
}

TEST(TokenStripSvg, HeatIsColourAndLinesAreCounted) {
  const std::vector<StripToken> tokens = {
      {.text = "a", .heat = 0},
      {.text = "b", .heat = 0.5, .underline = 1},
      {.text = "c", .heat = 7, .underline = 3},
      {.text = "d", .heat = std::numeric_limits<double>::quiet_NaN(), .underline = 99}};
  const std::string svg = TokenStripSvg(tokens, {});
  const std::vector<DrawnStrip> boxes = BoxesOf(svg);
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[0].opacity, 0);
  EXPECT_EQ(boxes[1].opacity, 0.5);
  EXPECT_EQ(boxes[2].opacity, 1);
  EXPECT_EQ(boxes[3].opacity, 0);
  std::vector<int> lines;
  for (size_t at = svg.find("class=\"s6\""); at != std::string::npos;
       at = svg.find("class=\"s6\"", at + 1)) {
    int count = 0;
    for (size_t i = svg.find(" d=\"", at) + 4; svg[i] != '"'; ++i) count += svg[i] == 'M';
    lines.push_back(count);
  }
  EXPECT_EQ(lines, (std::vector<int>{1, 3, 3}));
}

TEST(TokenStripSvg, LongTokensAreCutAndNoneIsAFigure) {
  const std::vector<StripToken> tokens = {{.text = std::string(1000, 'w')}, {.text = ""}};
  const std::string svg = TokenStripSvg(tokens, {.width = 300});
  for (const DrawnStrip& box : BoxesOf(svg)) EXPECT_LE(box.x + box.width, 300);
  EXPECT_TRUE(Contains(svg, "w\xE2\x80\xA6</text>"));
  EXPECT_TRUE(Contains(TokenStripSvg({}, {}), "no tokens"));
}

}  // namespace
}  // namespace folio
