#include "folio/io/output_directory.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "folio/base/error.h"

namespace folio {

namespace fs = std::filesystem;

void CheckReplaceable(const std::string& out, const std::string& kind, bool overwrite,
                      const std::function<bool(const std::string& name)>& is_part) {
  std::error_code ignored;
  if (!fs::exists(out, ignored) || (fs::is_directory(out, ignored) && fs::is_empty(out, ignored))) {
    return;
  }
  const std::string help = "name another directory with --out";
  if (!fs::is_directory(out, ignored)) {
    throw UsageError(fmt::format("{}: exists and is not a directory", out), "", help);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (is_part(name)) continue;
    throw UsageError(fmt::format("{}: not replaced", out),
                     fmt::format("it holds {}, which is no part of a {}", name, kind), help);
  }
  if (!overwrite) {
    throw UsageError(fmt::format("{}: already holds a {}", out, kind), "",
                     fmt::format("{}, or replace the {} with --overwrite", help, kind));
  }
}

}  // namespace folio
