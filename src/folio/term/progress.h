#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "folio/base/clock.h"
#include "folio/term/console.h"

namespace folio {

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
