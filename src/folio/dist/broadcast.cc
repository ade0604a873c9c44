#include "folio/dist/broadcast.h"

#include <fmt/format.h>

#include "folio/base/error.h"

namespace folio {

std::string BroadcastResult(Group* group, const std::function<std::string()>& find) {
  if (group == nullptr) return find();
  std::string found, failed;
  if (group->first()) {
    try {
      found = find();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      failed = fmt::format("{}: {}", error.what(), error.cause());
    }
  }
  failed = group->Broadcast(failed);
  if (!failed.empty()) throw InputError(failed);
  return group->Broadcast(found);
}

}  // namespace folio
