#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "folio/base/fields.h"
#include "folio/infer/sampler.h"

namespace folio {

// The options of one value by which a token is chosen, with names, ranges and help: the flags of
// the program, the options of folio.h and of Python, and the fields of the service's requests. The
// fields point into the arguments.
std::vector<Field> PenaltyFields(PenaltyOptions& options);
// `seed` is null where none is given; the caller then draws one.
std::vector<Field> ChoiceFields(SamplingOptions& options, std::optional<int64_t>& seed);
// Returns both, penalties first.
std::vector<Field> SamplingFields(SamplingOptions& options, std::optional<int64_t>& seed);
// Returns the ones that the files of a model may set (SuggestedSampling).
std::vector<Field> SuggestedFields(SamplingOptions& options);

}  // namespace folio
