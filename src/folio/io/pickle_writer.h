#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/json.h"

namespace folio {

// Parts of a pickle of Python's protocol 2, to be put together: each is one value.

// Plain values: dictionaries have texts as keys. REQUIRES: integers of 64 bits with a sign.
std::string Pickled(const Json& value);

// A dictionary of keys and values that are pickled already.
std::string PickledDict(std::span<const std::pair<std::string, std::string>> items);
std::string PickledTuple(std::span<const std::string> items);
// "torch.FloatStorage", and a call of such with a tuple.
std::string PickledGlobal(std::string_view name);
std::string PickledCall(std::string_view global, std::span<const std::string> arguments);
// Something outside the pickle, called by a tuple.
std::string PickledStored(std::span<const std::string> called);

// The whole pickle of a value.
std::string PickleOf(std::string_view value);

}  // namespace folio
