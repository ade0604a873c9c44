#pragma once

#include <string>
#include <vector>

#include "folio/serve/access_keys.h"
#include "folio/serve/client_address.h"
#include "folio/serve/http.h"
#include "folio/serve/scheduler.h"

namespace folio {

// AccessRules say who may ask.
struct AccessRules {
  AccessKeys keys = {};                    // any of them opens; none: nobody needs one
  std::vector<std::string> hosts = {};     // names by which the service is called, beside loopback
  std::vector<std::string> origins = {};   // "https://host": pages of others that may ask
  std::vector<AddressBlock> proxies = {};  // whose X-Forwarded-For is believed
};

// Returns the name of the key that opens the service to the request, "" where none does and none is
// needed, of `keys` instead of those of the rules. Throws an ApiError: 403 for a request that calls
// the service by a foreign name (a web page whose name was bound to our address) or that comes from
// a foreign page, 401 for one without its key. Names that are numeric addresses cannot be bound to
// others, and are taken. `open`: needs no key.
std::string CheckAccess(const AccessRules& rules, const AccessKeys& keys,
                        const HttpRequest& request, bool open);

// The X-Request-Id that the request came with, where it is one: up to 128 letters, digits and
// "-_.:/+=~@". Else a new one.
std::string RequestIdOf(const HttpRequest& request);
std::string NewRequestId();

// Returns the name as which a request takes its turns. REQUIRES: the service has filled in client
// and key.
ClientName NameOfClient(const HttpRequest& request);

// Adds the headers that a page of another origin needs; none for others.
void AddCorsHeaders(const AccessRules& rules, const HttpRequest& request, HttpReply& reply);

}  // namespace folio
