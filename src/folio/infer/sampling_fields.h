#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "folio/base/fields.h"
#include "folio/infer/sampler.h"

namespace folio {

// The options of one value by which a token is chosen, with names, ranges and help: the command's
// flags and the options of folio.h. The fields point into the arguments.
std::vector<Field> PenaltyFields(PenaltyOptions& of);
// `seed` is null where none is given: whoever chooses draws one.
std::vector<Field> ChoiceFields(SamplingOptions& of, std::optional<int64_t>& seed);

}  // namespace folio
