#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/corpus/prepare.h"
#include "folio/corpus/source.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Throws a kUsage Error if the options cannot be used, or if the target may not be replaced.
void CheckPrepareOptions(const PrepareOptions& options);

// All that decides what a data set will be, as JSON. `tokenizer` is null where the text decides.
std::string PrepareIdentity(const PrepareOptions& options, std::span<const PrepareSource> sources,
                            const Tokenizer* tokenizer);

}  // namespace folio
