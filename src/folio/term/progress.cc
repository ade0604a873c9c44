#include "folio/term/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string_view>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

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

// Returns how many of the parts, from the first on, lie beside each other in fewer than `width`
// columns: a terminal may break the line after its last one.
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
    // It is no JSON, so it is a text.
  }
  return text;
}

}  // namespace

ProgressMode ChooseProgressMode(const std::string& name, const Console& console) {
  if (console.verbosity() < 0 || name == "none") return ProgressMode::kNone;
  if (name == "json") return ProgressMode::kJson;
  if (name == "plain" || !console.err().is_terminal) return ProgressMode::kPlain;
  return ProgressMode::kBar;
}

std::string RenderProgressBar(const ProgressState& state, int width, bool utf8) {
  constexpr size_t kKept = 2;  // fields that come before the bar and the numbers of steps
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
      clock_(std::move(clock)),
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

}  // namespace folio
