#include "folio/base/simd_targets.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <cstdint>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

int64_t g_target = 0;  // 0: the best one

}  // namespace

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.push_back(hwy::TargetName(target));
  }
  return names;
}

void ForceSimdTarget(const std::string& name) {
  int64_t found = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) found = target;
  }
  if (found == 0 && !name.empty()) {
    throw UsageError(fmt::format("no instruction set \"{}\" on this machine", name),
                     fmt::format("it has {}", Join(SimdTargets(), ", ")), "choose one of these");
  }
  g_target = found;
  hwy::GetChosenTarget().Update(found != 0 ? found : hwy::SupportedTargets());
}

std::string SimdTarget() {
  return g_target != 0 ? hwy::TargetName(g_target) : SimdTargets().front();
}

}  // namespace folio
