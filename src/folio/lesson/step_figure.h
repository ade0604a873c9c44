#pragma once

#include <string>

#include "folio/lesson/walk.h"

namespace folio {

// The figure of a step as an SVG document, or "".
std::string StepFigure(const Step& step);

}  // namespace folio
