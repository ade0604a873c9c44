#pragma once

#include "folio/apps/command.h"
#include "folio/apps/prepare.h"

namespace folio {

// PrepareDataset with a progress line; a request to stop ends it with nothing left behind.
DatasetInfo PrepareWithProgress(const PrepareOptions& options, const Context& context);

}  // namespace folio
