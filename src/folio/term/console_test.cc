#include "folio/term/console.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace folio {
namespace {

Terminal Describe(bool is_a_tty, ColorMode mode, const std::map<std::string, std::string>& env,
                  int columns = 0) {
  return DescribeTerminal(is_a_tty, columns, mode, [&](const char* name) -> const char* {
    const auto found = env.find(name);
    return found == env.end() ? nullptr : found->second.c_str();
  });
}

TEST(Terminal, ColorNeedsATerminalThatWantsIt) {
  EXPECT_TRUE(Describe(true, ColorMode::kAuto, {}).color);
  EXPECT_FALSE(Describe(false, ColorMode::kAuto, {}).color);
  EXPECT_FALSE(Describe(true, ColorMode::kAuto, {{"NO_COLOR", "1"}}).color);
  EXPECT_TRUE(Describe(true, ColorMode::kAuto, {{"NO_COLOR", ""}}).color);
  EXPECT_FALSE(Describe(true, ColorMode::kAuto, {{"TERM", "dumb"}}).color);
}

TEST(Terminal, ForcedColorWinsAndTheFlagWinsOverAll) {
  EXPECT_TRUE(Describe(false, ColorMode::kAuto, {{"FORCE_COLOR", "1"}, {"NO_COLOR", "1"}}).color);
  EXPECT_FALSE(Describe(true, ColorMode::kAuto, {{"FORCE_COLOR", "0"}}).color);
  EXPECT_TRUE(Describe(false, ColorMode::kAlways, {{"NO_COLOR", "1"}}).color);
  EXPECT_FALSE(Describe(true, ColorMode::kNever, {{"FORCE_COLOR", "1"}}).color);
}

TEST(Terminal, ADumbTerminalGetsNoStatusLineEvenInColor) {
  const Terminal dumb = Describe(true, ColorMode::kAlways, {{"TERM", "dumb"}});
  EXPECT_FALSE(dumb.is_terminal);
  EXPECT_TRUE(dumb.color);
}

TEST(Terminal, TheFirstLocaleVariableThatIsSetDecides) {
  EXPECT_FALSE(Describe(true, ColorMode::kAuto, {}).utf8);
  EXPECT_TRUE(Describe(true, ColorMode::kAuto, {{"LANG", "en_US.UTF-8"}}).utf8);
  EXPECT_TRUE(Describe(true, ColorMode::kAuto, {{"LC_ALL", ""}, {"LANG", "C.utf8"}}).utf8);
  EXPECT_FALSE(Describe(true, ColorMode::kAuto, {{"LC_ALL", "C"}, {"LANG", "C.UTF-8"}}).utf8);
}

TEST(Terminal, WidthComesFromTheTerminalThenColumnsThenEighty) {
  EXPECT_EQ(Describe(true, ColorMode::kAuto, {{"COLUMNS", "33"}}, 121).width, 121);
  EXPECT_EQ(Describe(false, ColorMode::kAuto, {{"COLUMNS", "33"}}).width, 33);
  EXPECT_EQ(Describe(false, ColorMode::kAuto, {{"COLUMNS", "wide"}}).width, 80);
  EXPECT_EQ(Describe(false, ColorMode::kAuto, {{"COLUMNS", "-5"}}).width, 80);
}

TEST(Terminal, PlainTextStaysWithoutEscapes) {
  EXPECT_EQ(Styled(Terminal{}, Style::kError, "x"), "x");
  EXPECT_EQ(Styled(Terminal{.color = true}, Style::kError, "x"), "\x1b[1;31mx\x1b[0m");
}

}  // namespace
}  // namespace folio
