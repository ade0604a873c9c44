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

// The output of a template, with these variables, when it is `now`. `meter` is that of the
// variables. Throws a kInput Error where the template fails or goes beyond a limit (jinja_value.h),
// or says itself that it does not take the messages.
Text Render(const Node& tree, Variables variables, const std::tm& now, Meter& meter);

}  // namespace folio::jinja
