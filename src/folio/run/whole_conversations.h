#pragma once

#include <cstdint>
#include <string>

#include "folio/data/dataset.h"
#include "folio/run/run_config.h"

namespace folio {

// The positions that the longest conversation of a data set takes; 0 for texts.
int64_t LongestConversation(const Dataset& data);

// A conversation that is longer than a sequence, of train.context tokens, loses its end: in
// sequences of a length that somebody asked for, and then this says how many do, else "". Throws a
// kUsage Error where the length was only chosen for them. REQUIRES: resolved settings.
std::string RequireWholeConversations(const RunSettings& settings, const Dataset& data);

}  // namespace folio
