#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/lesson/walkthrough.h"

// For tests.

namespace folio {

// The step of this name; an empty one, and a failure, where there is none.
inline const Step& StepOf(const Walkthrough& walk, const std::string& name) {
  static const Step none = {.name = {}, .formula = {}, .values = {}, .why = {}};
  for (const Step& step : walk.steps) {
    if (step.name == name) return step;
  }
  ADD_FAILURE() << "no step " << name;
  return none;
}

const Step& StepOf(Walkthrough&& walk, const std::string& name) = delete;  // the step would be gone

// ValuesOf returns the values of a step, NumbersOf their numbers: all, or those of a row.
inline StepValues ValuesOf(const Walkthrough& walk, const std::string& name) {
  return StepOf(walk, name).values;
}
inline std::vector<double> NumbersOf(const Walkthrough& walk, const std::string& name) {
  return StepOf(walk, name).values.values;
}
inline std::vector<double> RowOf(const StepValues& values, int64_t row) {
  const auto begin = values.values.begin() + row * values.columns();
  return {begin, begin + values.columns()};
}
inline std::vector<double> RowOf(const Walkthrough& walk, const std::string& name, int64_t row) {
  return RowOf(StepOf(walk, name).values, row);
}

}  // namespace folio
