#include "folio/term/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

bool IsSet(const char* value) {
  return value != nullptr && *value != '\0';
}

bool LocaleIsUtf8(const Environment& env) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = env(name);
    if (!IsSet(value)) continue;
    const std::string text = LowerAscii(value);
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

bool HasColor(bool is_terminal, ColorMode mode, const Environment& env) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (const char* force = env("FORCE_COLOR"); IsSet(force)) return std::strcmp(force, "0") != 0;
  return is_terminal && !IsSet(env("NO_COLOR"));
}

Terminal DescribeStream(int fd, ColorMode mode) {
  winsize size{};
  const bool is_a_tty = isatty(fd) == 1;
  const int columns = is_a_tty && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return DescribeTerminal(is_a_tty, columns, mode,
                          [](const char* name) { return std::getenv(name); });
}

// Prevents files opened later from becoming stdin, stdout or stderr: /dev/null takes the place of a
// closed stream, opened so that using stdin or stdout still fails.
void OccupyClosedStreams() {
  for (const auto& [fd, flags] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) (void)!open("/dev/null", flags);
  }
}

void WriteToStderr(std::string_view text) {
  internal::WriteAll(STDERR_FILENO, text);
}

constexpr double kBarSeconds = 0.1;
constexpr double kLineSeconds = 5;
constexpr int kBarCells = 20;

double Fraction(const ProgressState& state) {
  if (state.total <= 0) return 0;
  return std::clamp(static_cast<double>(state.done) / static_cast<double>(state.total), 0.0, 1.0);
}

std::string BarCells(double fraction, bool utf8) {
  static constexpr std::string_view kEighths[] = {"▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(fraction * kBarCells * 8);
  std::string cells;
  for (int i = 0; i < kBarCells; ++i) {
    const int filled = std::clamp(eighths - 8 * i, 0, 8);
    if (!utf8) {
      cells += filled == 8 ? "#" : "-";
    } else if (filled == 8) {
      cells += "█";
    } else {
      cells += filled == 0 ? std::string_view(" ") : kEighths[filled - 1];
    }
  }
  return cells;
}

std::string DoneOfTotal(const ProgressState& state) {
  if (state.total <= 0) return fmt::format("{} {}", state.unit, WithCommas(state.done));
  const std::string total = WithCommas(state.total);
  return fmt::format("{:>{}}/{}", WithCommas(state.done), total.size(), total);
}

std::string JoinParts(std::span<const std::string> parts) {
  std::string line;
  for (const std::string& part : parts) {
    const int64_t used = DisplayWidth(line);
    line += std::string(used == 0 ? 0 : used <= 4 ? 1 : 2, ' ') + part;
  }
  return line;
}

// Returns how many parts, from the first on, fit side by side in fewer than `width` columns: a
// terminal may break the line after its last one.
size_t PartsThatFit(std::vector<std::string> parts, std::span<const std::string> more, int width) {
  parts.insert(parts.end(), more.begin(), more.end());
  size_t count = parts.size();
  while (count > 0 && DisplayWidth(JoinParts(std::span(parts).first(count))) >= width) --count;
  return count;
}

Json NumberOrText(const std::string& text) {
  try {
    if (Json number = ParseJson(text, "a field"); number.is_number()) return number;
  } catch (const Error&) {
    // It is not JSON, so it is text.
  }
  return text;
}

}  // namespace

Terminal DescribeTerminal(bool is_a_tty, int columns, ColorMode mode, const Environment& env) {
  const char* term = env("TERM");
  Terminal terminal;
  terminal.is_terminal = is_a_tty && !(term != nullptr && std::strcmp(term, "dumb") == 0);
  terminal.color = HasColor(terminal.is_terminal, mode, env);
  terminal.utf8 = LocaleIsUtf8(env);
  if (const char* text = env("COLUMNS"); columns <= 0 && IsSet(text)) {
    std::from_chars(text, text + std::strlen(text), columns);
  }
  if (columns > 0) terminal.width = columns;
  return terminal;
}

std::string Styled(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.color) return std::string(text);
  static constexpr const char* kCodes[] = {"1", "2", "1;31", "1;33", "1;36"};  // by style
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(style)], text);
}

Console::Console() {
  OccupyClosedStreams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  Configure(ColorMode::kAuto, 0, false);
}

Console::~Console() {
  SetStatus("");
  SetLogSink([](LogLevel, std::string_view) {});
}

void Console::Configure(ColorMode color, int verbosity, bool json) {
  out_ = DescribeStream(STDOUT_FILENO, color);
  err_ = DescribeStream(STDERR_FILENO, color);
  verbosity_ = verbosity;
  json_ = json;
  SetLogLevel(verbosity < 0   ? LogLevel::kError
              : verbosity > 0 ? LogLevel::kDebug
                              : LogLevel::kInfo);
  SetLogSink([this](LogLevel level, std::string_view message) {
    const std::string text = Visible(message, {.lines = false});
    if (level == LogLevel::kError) {
      Message(Styled(err_, Style::kError, "error:") + fmt::format(" {}", text));
    } else if (level == LogLevel::kWarning) {
      Message(Styled(err_, Style::kWarning, "warning:") + fmt::format(" {}", text));
    } else if (level == LogLevel::kDebug) {
      Message(Styled(err_, Style::kDim, text));
    } else {
      Message(text);
    }
  });
}

void Console::Result(std::string_view text) {
  WriteResult(Visible(text, {.styles = out_.color}));
}

void Console::Bytes(std::string_view bytes) {
  if (isatty(STDOUT_FILENO) == 1) return Result(bytes);
  WriteResult(bytes);
}

void Console::WriteResult(std::string_view text) {
  if (text.empty()) return;
  int problem = 0;
  {
    const std::lock_guard lock(mutex_);
    EraseStatus();
    result_mid_line_ = out_.is_terminal && text.back() != '\n';
    problem = internal::WriteAll(STDOUT_FILENO, text);
    DrawStatus();
  }
  if (problem == EPIPE) throw OutputClosed();
  // A closed terminal is no failure: SIGHUP says whether to stop, and nobody reads the text.
  const bool gone = problem == EIO && out_.is_terminal;
  if (problem != 0 && !gone) {
    throw RuntimeError("cannot write to standard output", std::strerror(problem),
                       "check where the output goes, and the free space there");
  }
}

void Console::Message(std::string_view text) {
  if (verbosity_ < -1) return;
  const std::lock_guard lock(mutex_);
  EraseStatus();
  WriteToStderr(Visible(text, {.styles = err_.color}) + '\n');
  DrawStatus();
}

void Console::SetStatus(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (!err_.is_terminal || (line.empty() && status_.empty())) return;
  EraseStatus();
  status_ = Visible(line, {.lines = false, .styles = err_.color});
  DrawStatus();
}

int Console::MeasureWidth() {
  const std::lock_guard lock(mutex_);
  FollowWidth();
  return err_.width;
}

void Console::FollowWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) err_.width = size.ws_col;
}

void Console::EraseStatus() {
  if (status_.empty() || result_mid_line_) return;
  FollowWidth();
  // A terminal that became narrower has broken the line into several.
  const int64_t above = (std::max<int64_t>(drawn_, 1) - 1) / std::max(err_.width, 1);
  WriteToStderr(above > 0 ? fmt::format("\r\x1b[{}A\x1b[J", above) : std::string("\r\x1b[K"));
}

void Console::DrawStatus() {
  if (status_.empty() || result_mid_line_) return;
  FollowWidth();
  const std::string line = DisplayWidth(status_) < err_.width
                               ? status_
                               : TerminalLabel(status_, std::max(err_.width - 1, 1), err_.utf8);
  WriteToStderr(line);
  drawn_ = DisplayWidth(line);
}

ProgressMode ChooseProgressMode(const std::string& name, const Console& console) {
  if (console.verbosity() < 0 || name == "none") return ProgressMode::kNone;
  if (name == "json") return ProgressMode::kJson;
  if (name == "plain" || !console.err().is_terminal) return ProgressMode::kPlain;
  return ProgressMode::kBar;
}

std::string RenderProgressBar(const ProgressState& state, int width, bool utf8) {
  constexpr size_t kKept = 2;  // the fields before the bar and the numbers of steps
  std::vector<std::string> begin, fields;
  if (state.total > 0) {
    begin.push_back(fmt::format("{:3.0f}%", std::floor(100 * Fraction(state))));
    begin.push_back(BarCells(Fraction(state), utf8));
  }
  begin.push_back(DoneOfTotal(state));
  for (const ProgressField& field : state.fields) {
    if (!field.bar.empty()) fields.push_back(field.bar);
  }
  const std::span<const std::string> all(fields);
  while (begin.size() > 1 && PartsThatFit(begin, all.first(std::min(kKept, all.size())), width) <
                                 begin.size() + std::min(kKept, all.size())) {
    begin.erase(begin.begin() + 1);
  }
  begin.insert(begin.end(), fields.begin(), fields.end());
  return JoinParts(std::span(begin).first(PartsThatFit(begin, {}, width)));
}

std::string RenderProgressPlain(const ProgressState& state) {
  std::string line = fmt::format("{}={}", state.unit, state.done);
  if (state.total > 0) line += fmt::format("/{}", state.total);
  for (const ProgressField& field : state.fields) {
    line += fmt::format(" {}={}", field.key, field.text);
  }
  return line;
}

std::string RenderProgressJson(const ProgressState& state) {
  std::map<std::string, Json> members = {
      {"event", "progress"}, {"schema", 1}, {state.unit, state.done}};
  if (state.total > 0) members["total"] = state.total;
  for (const ProgressField& field : state.fields) members[field.key] = NumberOrText(field.text);
  Json json = Json::object();
  for (auto& [key, value] : members) json.Add(key, std::move(value));
  return json.dump();
}

Progress::Progress(Console& console, ProgressMode mode, Clock clock)
    : console_(console),
      mode_(mode == ProgressMode::kAuto ? ChooseProgressMode("auto", console) : mode),
      clock_(clock ? std::move(clock) : SteadySeconds),
      last_(clock_() - (mode_ == ProgressMode::kBar ? 10 * kBarSeconds : 0)) {}

bool Progress::Due(bool milestone) const {
  if (mode_ == ProgressMode::kNone) return false;
  if (mode_ == ProgressMode::kBar) return clock_() - last_ >= kBarSeconds;
  return milestone || clock_() - last_ >= kLineSeconds;
}

void Progress::Show(const ProgressState& state, bool milestone) {
  if (!Due(milestone)) return;
  last_ = clock_();
  if (mode_ == ProgressMode::kBar) {
    const int width = console_.MeasureWidth();
    console_.SetStatus(RenderProgressBar(state, width, console_.err().utf8));
  } else if (mode_ == ProgressMode::kJson) {
    console_.Message(RenderProgressJson(state));
  } else {
    console_.Message(RenderProgressPlain(state));
  }
}

void RateMeter::Add(double units, double seconds) {
  if (warm_up_ > 0) {
    --warm_up_;
    return;
  }
  units_ = decay_ * units_ + (1 - decay_) * units;
  seconds_ = decay_ * seconds_ + (1 - decay_) * seconds;
}

double RateMeter::Eta(double units) const {
  return rate() > 0 ? units / rate() : std::numeric_limits<double>::quiet_NaN();
}

ProgressField RateMeter::EtaField(double units) const {
  const double eta = Eta(units);
  return {"eta_seconds", fmt::format("{:.0f}", eta), fmt::format("eta {}", HumanSeconds(eta))};
}

}  // namespace folio
