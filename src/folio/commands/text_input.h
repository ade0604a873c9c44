#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/term/byte_streams.h"

namespace folio {

// These functions are common to commands that hand a text to a model.

// All of a text that a person gives to a model. Throws a kInput Error beyond 64 MiB.
std::string ReadAll(ByteInput input);

// "464,2068", or what else ReadIds takes, as tokens of a model with a vocabulary of V; `where` is
// for errors. Throws a kInput Error for what is no id, or none of the model's.
std::vector<int32_t> ParseIds(const std::string& list, const std::string& where, int64_t V);

}  // namespace folio
