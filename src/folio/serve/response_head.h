#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "folio/serve/http.h"

namespace folio {

// The head of an answer, up to its empty line. `length`: of its body, where that is known; else it
// comes in chunks or, for HTTP/1.0, until the connection ends.
std::string ResponseHead(const HttpReply& reply, std::optional<size_t> length, bool chunked,
                         bool keep_alive);

// Returns true where an answer of this status may have a body.
bool HasBody(int status);

// Returns the reply for where there is no handler to make one, in the form of OpenAI's errors.
HttpReply ErrorReply(int status, const std::string& reason);

}  // namespace folio
