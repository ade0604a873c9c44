#include "folio/io/model_dir.h"

#include <system_error>

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
  if (!HoldsModel(dir)) {
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      if (HoldsModel(dir / checkpoint)) return dir / checkpoint;
    }
  }
  return dir;
}

}  // namespace folio
