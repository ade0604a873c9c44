#pragma once

#include <exception>
#include <string>

#include "folio/term/console.h"

namespace folio {

// An exception as the user is told it.
struct ErrorReport {
  int status = 1;                // exit status: 1 to 5, see ErrorKind
  std::string kind = "runtime";  // runtime | usage | input | resource | diverged
  std::string what;
  std::string cause;
  std::string help;
};

// std::bad_alloc is a resource error, an exception that is not a folio::Error a runtime error.
ErrorReport DescribeError(const std::exception& error);

// "error: what", "  cause", "  help: ...", without a line break at the end.
std::string RenderError(const ErrorReport& report, const Terminal& terminal);
// {"error":{"code","kind","message","cause","hint"},"schema":1} in one line.
std::string RenderErrorJson(const ErrorReport& report);

// Prints `error` to stderr in the console's manner and returns the exit status.
int ReportError(Console& console, const std::exception& error);

}  // namespace folio
