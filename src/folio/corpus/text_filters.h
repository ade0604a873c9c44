#pragma once

#include <string>

#include "folio/io/decompress.h"

namespace folio {

// UTF-16, behind its byte order mark, as UTF-8. Throws a kInput Error that names `name` for half a
// character.
ReadBytes FromUtf16(ReadBytes from, bool big_endian, std::string name);

// The elements of one JSON array, or any number of JSON values in a row, each in a line of its own;
// an element that is a string becomes the `field` of an object. Holds no value as a whole. Whether
// values are valid is not looked at: throws a kInput Error that names `name` only where they do not
// come to an end, or where other things are between them.
ReadBytes JsonAsLines(ReadBytes from, const std::string& field, std::string name);

}  // namespace folio
