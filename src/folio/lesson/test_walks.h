#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/report/report.h"

// For tests.

namespace folio {

// The step of this name; an empty one, and a failure, if there is none.
inline const ReportPart& StepOf(const Report& walk, const std::string& name) {
  static const ReportPart none;
  for (const ReportPart& step : walk.parts) {
    if (step.name == name) return step;
  }
  ADD_FAILURE() << "no step " << name;
  return none;
}

const ReportPart& StepOf(Report&& walk,
                         const std::string& name) = delete;  // the returned reference would dangle

// ValuesOf returns the values of a step, NumbersOf their numbers: all, or those of a row.
inline Matrix ValuesOf(const Report& walk, const std::string& name) {
  return StepOf(walk, name).values;
}
inline std::vector<double> NumbersOf(const Report& walk, const std::string& name) {
  return StepOf(walk, name).values.values;
}
inline std::vector<double> RowOf(const Matrix& values, int64_t row) {
  const auto begin = values.values.begin() + row * values.columns();
  return {begin, begin + values.columns()};
}
inline std::vector<double> RowOf(const Report& walk, const std::string& name, int64_t row) {
  return RowOf(StepOf(walk, name).values, row);
}

}  // namespace folio
