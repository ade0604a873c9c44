#include "folio/term/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/utf8.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

bool IsSet(const char* value) {
  return value != nullptr && *value != '\0';
}

bool NamesUtf8(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
}

bool LocaleIsUtf8(const Environment& env) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = env(name); IsSet(value)) return NamesUtf8(value);
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

// A file opened later must not become stdin, stdout or stderr: the place of a closed stream is
// taken by /dev/null, opened so that using stdin or stdout still fails.
void OccupyClosedStreams() {
  for (const auto& [fd, flags] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) (void)!open("/dev/null", flags);
  }
}

// Returns 0 or errno.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
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
    problem = WriteAll(STDOUT_FILENO, text);
    result_mid_line_ = out_.is_terminal && text.back() != '\n';
    DrawStatus();
  }
  if (problem == EPIPE) throw OutputClosed();
  // A terminal that was closed is no failure: SIGHUP says whether to stop, and nobody misses the
  // text.
  const bool gone = problem == EIO && out_.is_terminal;
  if (problem != 0 && !gone) {
    throw RuntimeError("cannot write to standard output", std::strerror(problem),
                       "check where the output is sent, and the space left there");
  }
}

void Console::Message(std::string_view text) {
  if (verbosity_ < -1) return;
  const std::lock_guard lock(mutex_);
  EraseStatus();
  const std::string line = Visible(text, {.styles = err_.color}) + '\n';
  WriteAll(STDERR_FILENO, line);
  DrawStatus();
}

void Console::Note(std::string_view text) {
  if (verbosity_ >= 0) Message(text);
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
  WriteAll(STDERR_FILENO,
           above > 0 ? fmt::format("\r\x1b[{}A\x1b[J", above) : std::string("\r\x1b[K"));
}

void Console::DrawStatus() {
  if (status_.empty() || result_mid_line_) return;
  FollowWidth();
  const std::string line = DisplayWidth(status_) < err_.width
                               ? status_
                               : TerminalLabel(status_, std::max(err_.width - 1, 1), err_.utf8);
  WriteAll(STDERR_FILENO, line);
  drawn_ = DisplayWidth(line);
}

}  // namespace folio
