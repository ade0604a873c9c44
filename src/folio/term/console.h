#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/clock.h"

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
  void Note(std::string_view text) {
    if (verbosity_ >= 0) Message(text);
  }

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

enum class ProgressMode { kAuto, kBar, kPlain, kJson, kNone };

// The mode named "auto", "bar", "plain", "json" or "none" as it works on this console: auto is a
// bar on a terminal and plain elsewhere, a bar without a terminal is plain, and nothing is shown
// where only errors are.
ProgressMode ChooseProgressMode(const std::string& name, const Console& console);

// One figure of a progress line.
struct ProgressField {
  std::string key;   // "loss": of key=text in plain lines, and of JSON
  std::string text;  // "4.2130"
  std::string bar;   // "loss 4.213": on a terminal; "" leaves it out there
};

// A state says how far work is. Fields are listed by importance: a narrow terminal drops the last
// ones, and for the first two the bar and the numbers of steps.
struct ProgressState {
  std::string unit = "step";
  int64_t done = 0;
  int64_t total = 0;  // 0 where nobody knows
  std::vector<ProgressField> fields;
};

// " 12% ###-----  1,240/10,000  loss 4.213  eta 58m04s", below `width` columns.
std::string RenderProgressBar(const ProgressState& state, int width, bool utf8);
// "step=1240/10000 loss=4.2130".
std::string RenderProgressPlain(const ProgressState& state);
// {"event":"progress","loss":4.213,"schema":1,"step":1240,"total":10000}; a text that is a number
// becomes one.
std::string RenderProgressJson(const ProgressState& state);

// Shows progress on stderr: a line redrawn at most ten times a second on a terminal, as wide as
// that is by then, else a line at each milestone and at least every five seconds. Log lines appear
// above the bar (see Console).
class Progress {
 public:
  using Clock = std::function<double()>;  // seconds from anywhere, never backwards

  Progress(Console& console, ProgressMode mode, Clock clock = SteadySeconds);
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Returns whether Show would print now; saves the making of a state that nobody sees.
  bool Due(bool milestone = false) const;
  // Prints `state` if it is due.
  void Show(const ProgressState& state, bool milestone = false);
  // Takes the bar away.
  void Finish() { console_.SetStatus(""); }

 private:
  Console& console_;
  ProgressMode mode_;
  Clock clock_;
  double last_;  // when a line was shown last; for a bar long ago at first
};

// Speed of repeated work and the time that is left. Units and seconds are averaged exponentially
// with the same weights, so their ratio needs no correction for the start; the first `warm_up`
// samples (caches and threads not yet ready) are left out.
class RateMeter {
 public:
  explicit RateMeter(int64_t warm_up = 1, double decay = 0.95) : warm_up_(warm_up), decay_(decay) {}

  // One sample: `units` of work took `seconds`.
  void Add(double units, double seconds);

  bool known() const { return seconds_ > 0; }
  double rate() const { return known() ? units_ / seconds_ : 0; }  // units per second
  // Seconds that `units` more will take, or NaN while the rate is not known.
  double Eta(double units) const;

 private:
  int64_t warm_up_;
  double decay_;
  double units_ = 0;
  double seconds_ = 0;
};

}  // namespace folio
