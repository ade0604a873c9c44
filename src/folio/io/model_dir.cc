#include "folio/io/model_dir.h"

#include <system_error>

#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

bool HoldsModel(const fs::path& dir) {
  std::error_code ignored;
  return fs::exists(dir / kConfigFile, ignored) && !FindWeightsFile(dir).empty();
}

}  // namespace

fs::path FindWeightsFile(const fs::path& dir) {
  std::error_code ignored;
  for (const char* name : kWeightsFiles) {
    if (fs::exists(dir / name, ignored)) return dir / name;
  }
  return {};
}

fs::path FindModelDir(const fs::path& dir) {
  if (HoldsModel(dir)) return dir;
  const auto checkpoint_of = [](const fs::path& run) -> fs::path {
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      if (HoldsModel(run / checkpoint)) return run / checkpoint;
    }
    return {};
  };
  fs::path found = checkpoint_of(dir);
  std::error_code ignored;
  if (found.empty() && fs::is_directory(dir, ignored)) {
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      internal::CleanLeftovers(internal::ResolveTarget(dir / checkpoint));
    }
    found = checkpoint_of(dir);
    const bool interrupted = fs::exists(dir / kNewRunDir, ignored);
    if (found.empty() && interrupted) found = checkpoint_of(dir / kOldRunDir);
  }
  return found.empty() ? dir : found;
}

}  // namespace folio
