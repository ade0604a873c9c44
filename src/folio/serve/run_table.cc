#include "folio/serve/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/serve/api_error.h"
#include "folio/serve/gvz.h"
#include "folio/serve/run_registry.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

constexpr size_t kMostRows = 1'000'000, kMostEvents = 1000;
constexpr uint64_t kPiece = 4 << 20;  // bytes that are read at a time
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns a value of metrics.jsonl: a number, or what JSON lacks by its name.
std::optional<double> ValueOf(const Json* json) {
  if (json == nullptr) return {};
  if (json->is_number()) return json->get<double>();
  if (*json == "nan") return kNan;
  if (*json == "inf") return HUGE_VAL;
  if (*json == "-inf") return -HUGE_VAL;
  return {};
}

// A Bucket sums the values that fall into it.
struct Bucket {
  double x = 0, sum = 0, low = kNan, high = kNan;
  int64_t all = 0, finite = 0;

  void Add(double at, double value) {
    if (all++ == 0 || at < x) x = at;
    if (!std::isfinite(value)) return;
    ++finite;
    sum += value;
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  double mean() const { return finite > 0 ? sum / static_cast<double>(finite) : kNan; }
};

// The points of a series on their way out.
struct Columns {
  Json x = Json::array(), mean = Json::array(), low = Json::array(), high = Json::array();

  void Add(double at, double middle, double least, double most) {
    x.push_back(at);
    mean.push_back(ShortNumber(middle));
    low.push_back(ShortNumber(least));
    high.push_back(ShortNumber(most));
  }
};

bool Within(const RunTable::Range& range, double x) {
  return std::isfinite(x) && !(range.from && x < *range.from) && !(range.to && x > *range.to);
}

}  // namespace

const std::vector<std::string>& RunTable::Axes() {
  static const std::vector<std::string> axes = {"step", "tokens", "seconds", "time"};
  return axes;
}

const std::vector<std::string>& RunTable::Keys() {
  static const std::vector<std::string> keys = {"loss", "val_loss",  "train_eval_loss",
                                                "lr",   "grad_norm", "tokens_per_second"};
  return keys;
}

RunTable::RunTable(const std::filesystem::path& run) : lines_(run / kMetricsFile) {
  Clear();
}

void RunTable::Clear() {
  axes_.clear();
  tracks_.clear();
  events_ = Json::array();
  for (const std::string& axis : Axes()) axes_[axis];
}

void RunTable::Update() {
  if (lines_.Rewound()) Clear();
  if (lines_.left() > kMostLogBytes) return;  // the run's summary says so
  while (lines_.Read(kPiece, [&](std::string_view line) {
    if (const std::optional<Json> row = ParseMetricsRow(line)) Add(*row);
  })) {
  }
}

void RunTable::Add(const Json& row) {
  const size_t index = axes_["step"].size();
  if (index >= kMostRows) {
    throw ApiError(413, fmt::format("the log has more than {} rows", kMostRows));
  }
  for (auto& [axis, values] : axes_) values.push_back(ValueOf(row.find(axis)).value_or(kNan));
  for (const std::string& key : Keys()) {
    const std::optional<double> value = ValueOf(row.find(key));
    if (!value) continue;
    Track& track = tracks_[key];
    track.rows.push_back(static_cast<uint32_t>(index));
    track.values.push_back(*value);
  }
  const auto tell = [&](const char* key, const char* event) {
    const Json* text = row.find(key);
    if (text == nullptr || !text->is_string() || events_.size() >= kMostEvents) return;
    events_.push_back({{"step", row["step"]}, {"event", event}, {"text", *text}});
  };
  tell("skipped", "skipped");
  tell("rolled_back", "rolled_back");
  tell("ended_by", "ended");
}

const std::vector<double>& RunTable::Axis(const std::string& name) const {
  return axes_.at(name);
}

std::vector<std::string> RunTable::KnownKeys() const {
  std::vector<std::string> known;
  for (const std::string& key : Keys()) {
    if (tracks_.contains(key)) known.push_back(key);
  }
  return known;
}

int64_t RunTable::RowsIn(const Range& range) const {
  return std::ranges::count_if(Axis(range.x), [&](double x) { return Within(range, x); });
}

Json RunTable::Series(const std::string& key, const Range& range) const {
  static const Track kNone;
  const auto found = tracks_.find(key);
  const Track& track = found == tracks_.end() ? kNone : found->second;
  const std::vector<double>& axis = Axis(range.x);
  double first = kNan, last = kNan;
  int64_t count = 0;
  for (const uint32_t row : track.rows) {
    if (!Within(range, axis[row])) continue;
    ++count;
    first = std::fmin(first, axis[row]);
    last = std::fmax(last, axis[row]);
  }
  const bool raw = count <= range.px;
  const double width = (last - first) / static_cast<double>(range.px);
  Columns columns;
  std::vector<Bucket> buckets(raw ? 0 : static_cast<size_t>(range.px));
  for (size_t i = 0; i < track.rows.size(); ++i) {
    const double x = axis[track.rows[i]], value = track.values[i];
    if (!Within(range, x)) continue;
    if (raw) {
      columns.Add(x, value, value, value);
    } else {
      const double at = width > 0 ? (x - first) / width : 0;
      buckets[std::min(static_cast<size_t>(at), buckets.size() - 1)].Add(x, value);
    }
  }
  for (const Bucket& bucket : buckets) {
    if (bucket.all > 0) columns.Add(bucket.x, bucket.mean(), bucket.low, bucket.high);
  }
  return {{"x", columns.x},      {"mean", columns.mean}, {"min", columns.low},
          {"max", columns.high}, {"n", count},           {"raw", raw}};
}

}  // namespace folio
