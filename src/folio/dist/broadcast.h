#pragma once

#include <functional>
#include <string>

#include "folio/dist/group.h"

namespace folio {

// The first rank's `mine`, for all ranks. A group of null, here and below, is one rank alone.
inline std::string Broadcast(Group* group, const std::string& mine) {
  return group == nullptr ? mine : group->Broadcast(mine);
}

// The result of find(), which the first rank alone calls, for all ranks. An Error of kind kInput is
// thrown on all of them too.
std::string BroadcastResult(Group* group, const std::function<std::string()>& find);

}  // namespace folio
