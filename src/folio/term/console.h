#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace folio {

enum class ColorMode { kAuto, kAlways, kNever };

// A terminal is an output stream and what it can show.
struct Terminal {
  bool is_terminal = false;  // a person looks at it, and it understands "\r" and escapes
  bool color = false;
  bool utf8 = false;
  int width = 80;
};

using Environment = std::function<const char*(const char* name)>;

// Color: `mode` first, then FORCE_COLOR, NO_COLOR, TERM=dumb and `is_a_tty`. UTF-8: LC_ALL,
// LC_CTYPE or LANG. `columns` is 0 where unknown (then COLUMNS, else 80).
Terminal DescribeTerminal(bool is_a_tty, int columns, ColorMode mode, const Environment& env);

enum class Style { kBold, kDim, kError, kWarning, kHelp };
// `text` between escapes if the stream has color, else as it is.
std::string Styled(const Terminal& terminal, Style style, std::string_view text);

// Thrown by Console::Result when the reader of stdout has gone (`| head`): the command ends quietly
// with status 0. Not a std::exception, so that nothing takes it for an error.
struct OutputClosed {};

// The two output streams: stdout carries the result and nothing else, stderr all the rest. Keeps
// one status line (progress) at the bottom of a terminal, under everything that is printed.
// Thread-safe. There is one Console, made before anything is printed.
class Console {
 public:
  // Ignores SIGPIPE and SIGXFSZ (a write beyond ulimit -f is then an error like that of a full
  // disk), and keeps closed standard streams from being reused by files.
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // verbosity: -2 nothing on stderr, -1 errors, 0 as usual, 1 and more debug messages. Routes Log()
  // to this console.
  void Configure(ColorMode color, int verbosity, bool json);

  const Terminal& out() const { return out_; }
  const Terminal& err() const { return err_; }
  bool json() const { return json_; }
  int verbosity() const { return verbosity_; }

  // Writes `text` to stdout at once. What could command a terminal is shown as escapes
  // (base/utf8.h), in each of the following too, so that names and texts of files may be in it;
  // where the stream has color, styles stay. Throws OutputClosed, or a kRuntime Error if stdout
  // cannot be written.
  void Result(std::string_view text);
  // A result that is text or bytes for whoever reads them (what a model wrote, what tokens decode
  // to): into files and pipes as they are. On a terminal as Result, in pieces of whole characters.
  void Bytes(std::string_view bytes);
  // Writes `text` and a line break to stderr. Does not fail.
  void Message(std::string_view text);
  // Prints as Message does, unless verbosity is below 0.
  void Note(std::string_view text);

  // Shows `line` at the bottom until the next call, cut to the width of the terminal; "" takes it
  // away. Only where err().is_terminal.
  void SetStatus(std::string_view line);
  // Columns of stderr as it is now: people resize their terminals.
  int MeasureWidth();

 private:
  void WriteResult(std::string_view text);
  void FollowWidth();
  void EraseStatus();
  void DrawStatus();

  std::mutex mutex_;
  Terminal out_;
  Terminal err_;
  bool json_ = false;
  int verbosity_ = 0;
  bool result_mid_line_ = false;  // the last result on a terminal did not end its line
  std::string status_;
  int64_t drawn_ = 0;  // columns of the status on the screen
};

}  // namespace folio
