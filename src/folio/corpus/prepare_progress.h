#pragma once

#include "folio/corpus/prepare.h"
#include "folio/term/progress.h"

namespace folio {

// PrepareDataset with a progress line and notes; a request to stop (term/signals.h) ends it by
// throwing Stopped.
DatasetInfo PrepareWithProgress(const PrepareOptions& options, Console& console,
                                ProgressMode mode = ProgressMode::kAuto);

}  // namespace folio
