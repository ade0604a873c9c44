#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "folio/io/json.h"
#include "folio/lesson/render.h"

namespace folio {
namespace {

// A number that came from float32 in as few digits as give that float32 back.
Json Number(double value, bool masks) {
  if (std::isnan(value)) return masks ? Json(nullptr) : Json("nan");
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const auto single = static_cast<float>(value);
  if (static_cast<double>(single) != value) return value;
  return std::strtod(fmt::format("{}", single).c_str(), nullptr);
}

Json Nested(const StepValues& values) {
  Json rows = Json::array();
  for (int64_t r = 0; r < values.rows(); ++r) {
    Json row = Json::array();
    for (int64_t c = 0; c < values.columns(); ++c) {
      const auto at = static_cast<size_t>(r * values.columns() + c);
      row.push_back(Number(values.values[at], values.masks));
    }
    rows.push_back(std::move(row));
  }
  return values.shape.size() == 2 ? rows : rows.at(0);
}

Json StepJson(const Step& step) {
  Json json = {{"name", step.name},
               {"formula", step.formula},
               {"shape", step.values.shape},
               {"values", Nested(step.values)},
               {"why", step.why},
               {"row_labels", step.values.row_labels},
               {"column_labels", step.values.column_labels}};
  if (!step.section.empty()) json["section"] = step.section;
  return json;
}

}  // namespace

std::string WalkthroughJson(const Walkthrough& walk) {
  Json steps = Json::array();
  for (const Step& step : walk.steps) steps.push_back(StepJson(step));
  const Json json = {{"schema", 1},
                     {"topic", walk.topic},
                     {"title", walk.title},
                     {"intro", walk.intro},
                     {"steps", std::move(steps)}};
  return json.dump() + "\n";
}

}  // namespace folio
