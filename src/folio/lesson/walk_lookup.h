#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/lesson/walk.h"

// For tests.

namespace folio {

// The step of this name; an empty one, and a failure, where there is none.
inline const Step& StepOf(const Walk& walk, const std::string& name) {
  static const Step none = {.name = {}, .formula = {}, .values = {}, .why = {}};
  for (const Step& step : walk.steps) {
    if (step.name == name) return step;
  }
  ADD_FAILURE() << "no step " << name;
  return none;
}

const Step& StepOf(Walk&& walk, const std::string& name) = delete;  // the step would be gone

// A row of a step's numbers.
inline std::vector<double> RowOfStep(const Step& step, int64_t row) {
  const int64_t C = step.values.columns();
  const auto begin = step.values.values.begin() + row * C;
  return {begin, begin + C};
}

}  // namespace folio
