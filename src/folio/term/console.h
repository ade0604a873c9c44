#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

enum class ColorMode { kAuto, kAlways, kNever };

// An output stream and its capabilities.
struct Terminal {
  bool is_terminal = false;  // interactive, and understands "\r" and escapes
  bool color = false;
  bool utf8 = false;
  int width = 80;
};

using Environment = std::function<const char*(const char* name)>;

// Color: `mode` first, then FORCE_COLOR, NO_COLOR, TERM=dumb and `is_a_tty`. UTF-8: LC_ALL,
// LC_CTYPE or LANG. `columns` is 0 if unknown (then COLUMNS, else 80).
Terminal DescribeTerminal(bool is_a_tty, int columns, ColorMode mode, const Environment& env);

enum class Style { kBold, kDim, kError, kWarning, kHelp };
// `text` between escapes if the stream has color, else as it is.
std::string Styled(const Terminal& terminal, Style style, std::string_view text);

// Thrown by Console::Result when the reader of stdout has closed it (`| head`): the command ends
// quietly with status 0. Not derived from std::exception, so that no handler takes it for an error.
struct OutputClosed {};

// The two output streams: stdout carries only results, stderr everything else. Keeps one status
// line (progress) at the bottom of a terminal, below all other output. Thread-safe. There is one
// Console, created before anything is printed.
class Console {
 public:
  // Ignores SIGPIPE and SIGXFSZ (a write beyond ulimit -f then fails like on a full disk), and
  // prevents closed standard streams from being reused by files.
  Console();
  ~Console();

  // verbosity: -2 nothing on stderr, -1 errors, 0 as usual, 1 and more debug messages. Routes Log()
  // to this console.
  void Configure(ColorMode color, int verbosity, bool json);

  const Terminal& out() const { return out_; }
  const Terminal& err() const { return err_; }
  bool json() const { return json_; }
  int verbosity() const { return verbosity_; }

  // Writes `text` to stdout at once. Characters that could control a terminal become escapes
  // (base/utf8.h), here and in the functions below, so that names and texts of files are safe;
  // styles stay if the stream has color. Throws OutputClosed, or a kRuntime Error if stdout cannot
  // be written.
  void Result(std::string_view text);
  // Writes a result that is raw text or bytes (generated text, decoded tokens): unchanged into
  // files and pipes, on a terminal like Result, in pieces of whole characters.
  void Bytes(std::string_view bytes);
  // Writes `text` and a line break to stderr. Does not fail.
  void Message(std::string_view text);
  // Like Message, but not if verbosity is below 0.
  void Note(std::string_view text) {
    if (verbosity_ >= 0) Message(text);
  }

  // Shows `line` at the bottom until the next call, cut to the width of the terminal; "" removes
  // it. Does nothing unless err().is_terminal.
  void SetStatus(std::string_view line);
  // The current columns of stderr: users resize terminals.
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

// The mode named "auto", "bar", "plain", "json" or "none", adapted to this console: auto is a bar
// on a terminal and plain elsewhere, a bar without a terminal is plain, and none if only errors are
// shown.
ProgressMode ChooseProgressMode(const std::string& name, const Console& console);

// One value of a progress line.
struct ProgressField {
  std::string key;   // "loss": for key=text in plain lines, and for JSON
  std::string text;  // "4.2130"
  std::string bar;   // "loss 4.213": on a terminal; "" for not there
};

// The progress of some work. Fields are listed by importance: a narrow terminal omits the last ones
// first, and the bar and the numbers of steps before the first two.
struct ProgressState {
  std::string unit = "step";
  int64_t done = 0;
  int64_t total = 0;  // 0 if unknown
  std::vector<ProgressField> fields;
};

// " 12% ###-----  1,240/10,000  loss 4.213  eta 58m04s", below `width` columns.
std::string RenderProgressBar(const ProgressState& state, int width, bool utf8);
// "step=1240/10000 loss=4.2130".
std::string RenderProgressPlain(const ProgressState& state);
// {"event":"progress","loss":4.213,"schema":1,"step":1240,"total":10000}; a text that is a number
// becomes a number.
std::string RenderProgressJson(const ProgressState& state);

// Shows progress on stderr: on a terminal a line redrawn at most ten times a second in the current
// width, else a line at each milestone and at least every five seconds. Log lines appear above the
// bar (see Console).
class Progress {
 public:
  using Clock = std::function<double()>;  // seconds since any time, never decreasing

  // Without a clock it is SteadySeconds (base/clock.h).
  Progress(Console& console, ProgressMode mode, Clock clock = nullptr);
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Returns true if Show would print now; avoids building a state that is not shown.
  bool Due(bool milestone = false) const;
  // Prints `state` if it is due.
  void Show(const ProgressState& state, bool milestone = false);
  // Removes the bar.
  void Finish() { console_.SetStatus(""); }

 private:
  Console& console_;
  ProgressMode mode_;
  Clock clock_;
  double last_;  // when a line was last shown; for a bar initially long ago
};

// Speed of repeated work and the remaining time. Units and seconds are averaged exponentially with
// the same weights, so their ratio needs no correction for the start; the first `warm_up` samples
// (cold caches and threads) are left out.
class RateMeter {
 public:
  explicit RateMeter(int64_t warm_up = 1, double decay = 0.95) : warm_up_(warm_up), decay_(decay) {}

  // One sample: `units` of work took `seconds`.
  void Add(double units, double seconds);

  bool known() const { return seconds_ > 0; }
  double rate() const { return known() ? units_ / seconds_ : 0; }  // units per second
  // Seconds for `units` more, or NaN if the rate is not known yet.
  double Eta(double units) const;
  ProgressField EtaField(double units) const;

 private:
  int64_t warm_up_;
  double decay_;
  double units_ = 0;
  double seconds_ = 0;
};

}  // namespace folio
