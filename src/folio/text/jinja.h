#pragma once

#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "folio/text/jinja_syntax.h"
#include "folio/text/jinja_value.h"

namespace folio::jinja {

using Variables = std::span<const std::pair<std::string_view, Value>>;

// The output of a template with these variables at time `now`. `meter` is the one of the variables.
// Throws a kInput Error if the template fails or exceeds a limit (jinja_value.h), or raises an
// error for the messages itself.
Text Render(const Node& tree, Variables variables, const std::tm& now, Meter& meter);

}  // namespace folio::jinja
