#pragma once

#include <span>
#include <string>

#include "folio/lesson/walkthrough.h"

namespace folio {

// The step's name as part of a file name or a flag: "masked scores" is "masked-scores".
std::string StepSlug(const Step& step);

// The walk with only the steps of these slugs, in its own order, without introduction and sections;
// all of it where `slugs` is empty. Throws a kUsage Error that lists all steps for one it lacks.
Walkthrough SelectSteps(const Walkthrough& walk, std::span<const std::string> slugs);

}  // namespace folio
