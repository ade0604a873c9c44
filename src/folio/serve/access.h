#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/serve/http.h"

namespace folio {

// Who may ask.
struct AccessRules {
  std::vector<std::string> keys = {};     // any of them opens; none: nobody needs one
  std::vector<std::string> hosts = {};    // names by which the service is called, beside loopback
  std::vector<std::string> origins = {};  // "https://host": pages of others that may ask
};

// Throws an ApiError: 403 for a request that calls the service by a foreign name (a web page whose
// name was bound to our address) or that comes from a foreign page, 401 for one without its key.
// Names that are numeric addresses cannot be bound to others, and are taken. `open`: needs no key.
void CheckAccess(const AccessRules& rules, const HttpRequest& request, bool open);

// What a page of another origin needs to be told; nothing for others.
void AddCorsHeaders(const AccessRules& rules, const HttpRequest& request, HttpReply& reply);

// One key a line; empty lines and lines that begin with '#' are left out. Throws a kInput Error for
// a file without a key.
std::vector<std::string> ReadKeys(const std::string& file);

}  // namespace folio
