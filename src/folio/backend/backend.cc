#include "folio/backend/backend.h"

#include <fmt/format.h>

#include "folio/backend/decorated_backends.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {

std::unique_ptr<Backend> MakeBackend(const std::string& name) {
  if (name == "reference") return MakeReferenceBackend();
  if (name == "cpu") return MakeCpuBackend();
  if (name == "checked") return MakeCheckedBackend(MakeCpuBackend(), MakeReferenceBackend());
  if (name == "timed") return std::make_unique<TimedBackend>(MakeCpuBackend());
  const std::vector<std::string> names = BackendNames();
  const std::string nearest = Nearest(name, names);
  throw UsageError(fmt::format("there is no backend \"{}\"", name),
                   fmt::format("available: {}", Join(names, ", ")),
                   nearest.empty() ? "choose one of them" : fmt::format("use {}", nearest));
}

std::vector<std::string> BackendNames() {
  return {"reference", "cpu", "checked", "timed"};
}

}  // namespace folio
