#include "folio/cli/error_report.h"

#include <new>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"

namespace folio {
namespace {

std::string KindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kResource:
      return "resource";
    case ErrorKind::kDiverged:
      return "diverged";
    case ErrorKind::kRuntime:
      break;
  }
  return "runtime";
}

ErrorReport Make(ErrorKind kind, std::string what, std::string cause, std::string help) {
  return {static_cast<int>(kind), KindName(kind), std::move(what), std::move(cause),
          std::move(help)};
}

}  // namespace

ErrorReport DescribeError(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return Make(known->kind(), known->what(), known->cause(), known->help());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return Make(ErrorKind::kResource, "out of memory", "the system refused to give more",
                "use a smaller batch, context or model");
  }
  return Make(ErrorKind::kRuntime, error.what(), {}, {});
}

std::string RenderError(const ErrorReport& report, const Terminal& terminal) {
  std::string text = Styled(terminal, Style::kError, "error:") + " " + report.what;
  if (!report.cause.empty()) {
    for (const std::string& line : Split(report.cause, '\n')) text += "\n  " + line;
  }
  if (!report.help.empty()) {
    text += "\n  " + Styled(terminal, Style::kHelp, "help:") + " " + report.help;
  }
  return text;
}

std::string RenderErrorJson(const ErrorReport& report) {
  const Json json = {{"error",
                      {{"cause", report.cause},
                       {"code", report.status},
                       {"hint", report.help},
                       {"kind", report.kind},
                       {"message", report.what}}},
                     {"schema", 1}};
  return json.dump();
}

int ReportError(Console& console, const std::exception& error) {
  const ErrorReport report = DescribeError(error);
  console.SetStatus("");
  console.Message(console.json() ? RenderErrorJson(report) : RenderError(report, console.err()));
  return report.status;
}

}  // namespace folio
