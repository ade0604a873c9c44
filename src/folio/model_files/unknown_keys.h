#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace folio {

class Json;

// Keys of JSON objects in files of other programs that folio does not read.

// Returns whether a value asks for nothing: null, false, 0, and an empty text, list or object.
bool AsksForNothing(const Json& value);

// Warns of keys in the file that begins `where` which nobody knows, and which are passed over, in
// one line that is said once in a process; of each the nearest of the keys that are `known` there.
void WarnOfUnknownKeys(const std::string& where, const std::vector<std::string>& unknown,
                       const std::vector<std::string>& known);

}  // namespace folio
