#pragma once

#include "folio/apps/command.h"
#include "folio/apps/prepare.h"

namespace folio {

// PrepareDataset with a progress line and notes; a request to stop ends it by throwing Stopped.
DatasetInfo PrepareWithProgress(const PrepareOptions& options, const Context& context);

}  // namespace folio
