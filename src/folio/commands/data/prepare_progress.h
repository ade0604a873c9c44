#pragma once

#include "folio/cli/command.h"
#include "folio/corpus/prepare.h"

namespace folio {

// PrepareDataset with a progress line and notes; a request to stop ends it by throwing Stopped.
DatasetInfo PrepareWithProgress(const PrepareOptions& options, const Context& context);

}  // namespace folio
