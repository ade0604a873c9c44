#include "folio/term/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
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

// A terminal as stderr, whose width can be set.
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
    constexpr int kQuiet = 100;  // milliseconds without output that count as its end
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
  SetWidth(30);  // it takes three rows now
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

ProgressState Training() {
  return {"step",
          1240,
          10000,
          {{"loss", "4.2130", "loss 4.213"},
           {"eta_seconds", "3484", "eta 58m04s"},
           {"ema", "4.1980", ""},
           {"tokens_per_second", "41200", "41.2k tok/s"}}};
}

// One column stays free, so 77 columns of text need a width of 78.
TEST(ProgressBar, NarrowTerminalsDropFieldsFromTheRightAndTheBarBeforeLossAndTime) {
  const std::string whole =
      " 12% ##------------------   1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s";
  EXPECT_EQ(RenderProgressBar(Training(), 120, true),
            " 12% ██▍                    1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s");
  const std::pair<int, std::string> cases[] = {
      {120, whole},
      {78, whole},
      {77, " 12% ##------------------   1,240/10,000  loss 4.213  eta 58m04s"},
      {60, " 12%  1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s"},
      {45, " 12%  1,240/10,000  loss 4.213  eta 58m04s"},
      {40, " 12% loss 4.213  eta 58m04s"},
      {20, " 12% loss 4.213"},
      {4, ""}};
  for (const auto& [width, text] : cases) {
    EXPECT_EQ(RenderProgressBar(Training(), width, false), text);
  }
  for (int width = 1; width < 100; ++width) {
    EXPECT_LT(static_cast<int>(RenderProgressBar(Training(), width, false).size()), width);
  }
}

TEST(ProgressBar, EndsAndUnknownTotals) {
  ProgressState state{"step", 0, 3, {}};
  EXPECT_EQ(RenderProgressBar(state, 80, false), "  0% --------------------  0/3");
  state.done = 3;
  EXPECT_EQ(RenderProgressBar(state, 80, false), "100% ####################  3/3");
  state.done = 4;  // more than was announced
  EXPECT_EQ(RenderProgressBar(state, 80, false), "100% ####################  4/3");
  state.total = 0;
  EXPECT_EQ(RenderProgressBar(state, 80, false), "step 4");
}

TEST(ProgressPlain, IsKeysAndValues) {
  EXPECT_EQ(RenderProgressPlain(Training()),
            "step=1240/10000 loss=4.2130 eta_seconds=3484 ema=4.1980 tokens_per_second=41200");
  EXPECT_EQ(RenderProgressPlain({"bytes", 7, 0, {}}), "bytes=7");
}

TEST(ProgressJson, NumbersAreNumbersAndTheRestText) {
  EXPECT_EQ(
      RenderProgressJson({"step", 3, 9, {{"loss", "4.25", ""}, {"eta_seconds", "nan", ""}}}),
      R"({"eta_seconds":"nan","event":"progress","loss":4.25,"schema":1,"step":3,"total":9})");
}

TEST(Progress, PlainLinesComeAtMilestonesAndEveryFewSeconds) {
  Console console;
  double now = 100;
  Progress progress(console, ProgressMode::kPlain, [&] { return now; });
  testing::internal::CaptureStderr();
  progress.Show({"step", 1, 9, {}});
  progress.Show({"step", 2, 9, {}}, /*milestone=*/true);
  now += 4.9;
  progress.Show({"step", 3, 9, {}});
  now += 0.2;
  progress.Show({"step", 4, 9, {}});
  progress.Show({"step", 5, 9, {}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step=2/9\nstep=4/9\n");
}

TEST(Progress, NoneShowsNothing) {
  Console console;
  Progress progress(console, ProgressMode::kNone, [] { return 0.0; });
  EXPECT_FALSE(progress.Due(/*milestone=*/true));
}

TEST(Progress, ABarIsDueTenTimesASecond) {
  Console console;
  double now = 100;
  Progress progress(console, ProgressMode::kBar, [&] { return now; });
  EXPECT_TRUE(progress.Due());
  progress.Show({"step", 1, 9, {}});
  EXPECT_FALSE(progress.Due(/*milestone=*/true));
  now += 0.11;
  EXPECT_TRUE(progress.Due());
}

TEST(RateMeter, LeavesTheWarmUpOut) {
  RateMeter rate(/*warm_up=*/2);
  rate.Add(10, 100);
  rate.Add(10, 100);
  EXPECT_FALSE(rate.known());
  EXPECT_TRUE(std::isnan(rate.Eta(50)));
  rate.Add(10, 2);
  EXPECT_DOUBLE_EQ(rate.rate(), 5);
  EXPECT_DOUBLE_EQ(rate.Eta(50), 10);
}

TEST(RateMeter, IsNotBiasedTowardsZeroAtTheStartAndForgetsSlowly) {
  RateMeter rate(0, 0.9);
  for (int i = 0; i < 3; ++i) rate.Add(8, 1);
  EXPECT_NEAR(rate.rate(), 8, 1e-12);
  for (int i = 0; i < 200; ++i) rate.Add(8, 4);
  EXPECT_NEAR(rate.rate(), 2, 1e-6);
}

}  // namespace
}  // namespace folio
