#include "folio/io/model_dir.h"

#include <system_error>

namespace folio {
namespace {

namespace fs = std::filesystem;

bool HoldsModel(const fs::path& dir) {
  std::error_code ignored;
  return fs::exists(dir / kConfigFile, ignored) && fs::exists(dir / kWeightsFile, ignored);
}

}  // namespace

fs::path FindModelDir(const fs::path& dir) {
  if (!HoldsModel(dir)) {
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      if (HoldsModel(dir / checkpoint)) return dir / checkpoint;
    }
  }
  return dir;
}

}  // namespace folio
