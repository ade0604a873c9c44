#include "folio/cli/error_report.h"

#include <filesystem>
#include <new>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"

namespace folio {
namespace {

ErrorReport Make(const Error& error) {
  static constexpr const char* kKinds[] = {"runtime", "usage", "input", "resource", "diverged"};
  return {error.exit_status(), kKinds[error.exit_status() - 1], error.what(), error.cause(),
          error.help()};
}

}  // namespace

ErrorReport DescribeError(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return Make(*known);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return Make({ErrorKind::kResource, "out of memory", "the system refused to give more",
                 "use a smaller batch, context or model"});
  }
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return Make(
        RuntimeError("cannot change or read " + file->path1().string(), file->code().message()));
  }
  return Make(RuntimeError(error.what()));
}

std::string RenderError(const ErrorReport& report, const Terminal& terminal) {
  const auto on_a_line = [](const std::string& text) { return Visible(text, {.lines = false}); };
  std::string text = Styled(terminal, Style::kError, "error:") + " " + on_a_line(report.what);
  if (!report.cause.empty()) {
    for (const std::string& line : Split(report.cause, '\n')) text += "\n  " + on_a_line(line);
  }
  if (!report.help.empty()) {
    text += "\n  " + Styled(terminal, Style::kHelp, "help:") + " " + on_a_line(report.help);
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
