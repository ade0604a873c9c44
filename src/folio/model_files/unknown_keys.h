#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace folio {

class Json;

// Keys of JSON objects in files of other programs that folio does not read.

// Returns whether a value asks for nothing: null, false, 0, and an empty text, list or object.
bool AsksForNothing(const Json& value);

// Warns in one line of the unknown keys that were ignored in the file `where`, each with the
// nearest of the `known` keys. The same line is written once in a process.
void WarnOfUnknownKeys(const std::string& where, const std::vector<std::string>& unknown,
                       const std::vector<std::string>& known);

}  // namespace folio
