#include "folio/term/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "folio/term/terminal_text.h"

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

// A terminal in the place of stderr, whose width can be set.
class StatusLine : public testing::Test {
 protected:
  void SetUp() override {
    master_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) {
      GTEST_SKIP() << "there are no pseudo terminals";
    }
    SetWidth(80);
    const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    ASSERT_GE(slave, 0);
    SetWidth(80);
    saved_ = dup(STDERR_FILENO);
    dup2(slave, STDERR_FILENO);
    close(slave);
    setenv("TERM", "xterm", 1);
  }
  void TearDown() override {
    if (saved_ >= 0) dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, master_}) {
      if (fd >= 0) close(fd);
    }
  }

  void SetWidth(int columns) const {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = 24;
    ioctl(master_, TIOCSWINSZ, &size);
  }
  // Returns what was written since the last call.
  std::string Written() const {
    constexpr int kQuiet = 100;  // milliseconds after which nothing more comes
    std::string text;
    for (pollfd waiting{master_, POLLIN, 0}; poll(&waiting, 1, kQuiet) > 0;) {
      char some[4096];
      const ssize_t n = read(master_, some, sizeof some);
      if (n <= 0) break;
      text.append(some, static_cast<size_t>(n));
    }
    return text;
  }

 private:
  int master_ = -1, saved_ = -1;
};

TEST_F(StatusLine, IsTakenAwayWholeWhereTheTerminalBecameNarrower) {
  Console console;
  EXPECT_EQ(console.MeasureWidth(), 80);
  console.SetStatus(std::string(70, 'x'));
  EXPECT_EQ(Written(), std::string(70, 'x'));
  SetWidth(30);  // it lies in three rows now
  EXPECT_EQ(console.MeasureWidth(), 30);
  console.SetStatus("short");
  EXPECT_EQ(Written(), "\r\x1b[2A\x1b[Jshort");
  console.SetStatus("");
  EXPECT_EQ(Written(), "\r\x1b[K");
}

TEST_F(StatusLine, IsCutToTheWidthBelowMessages) {
  Console console;
  console.SetStatus(std::string(70, 'x'));
  SetWidth(30);
  Written();
  console.Message("note");
  const std::string text = Written();
  EXPECT_TRUE(text.starts_with("\r\x1b[2A\x1b[Jnote\r\n" + std::string(25, 'x'))) << text;
  EXPECT_FALSE(text.ends_with(std::string(30, 'x'))) << text;
}

}  // namespace
}  // namespace folio
