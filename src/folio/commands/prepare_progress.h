#pragma once

#include "folio/corpus/prepare.h"
#include "folio/term/console.h"

namespace folio {

// Calls PrepareDataset, with a progress line and notes on the console. A request to stop
// (base/signals.h) ends it by throwing Stopped.
DatasetInfo PrepareWithProgress(const PrepareOptions& options, Console& console, ProgressMode mode);

}  // namespace folio
