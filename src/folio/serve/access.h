#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/serve/http.h"
#include "folio/serve/scheduler.h"

namespace folio {

// The header of an answer that says which model it is of.
inline constexpr char kModelHeader[] = "X-Folio-Model";

// The addresses that begin with the same bits: "10.0.0.0/8", "fd00::/8", "127.0.0.1".
class AddressBlock {
 public:
  // Throws a kUsage Error that names `flag` for what is no such text.
  AddressBlock(std::string_view text, std::string_view flag);

  // Returns true where the block has the address; false for a text that is none.
  bool Has(std::string_view address) const;

 private:
  std::array<uint8_t, 16> bytes_ = {};  // of IPv6; those of IPv4 are mapped to it
  int bits_ = 128;
};

// The address that a request comes from: `peer`, the other end of its connection. Where that is one
// of `proxies`, it is the last of the addresses in `forwarded` that is not: of an X-Forwarded-For,
// "client, proxy, proxy", to which each proxy adds whom it heard from. Addresses before it were
// written by the client.
std::string ClientAddress(const std::vector<AddressBlock>& proxies, const std::string& peer,
                          std::string_view forwarded);

// Returns the name under which an address is counted as one client: the address itself, but of IPv6
// the first 64 bits, since whoever has one of these addresses has all of them.
std::string NetworkOf(const std::string& address);

// A key that opens the service, of which its hash is all that is kept.
struct AccessKey {
  std::string name;    // of letters, digits and "._-", for logs and metrics
  std::string sha256;  // 64 hexadecimal digits, small ones
};
using AccessKeys = std::vector<AccessKey>;

// A key a line: "KEY" or "NAME:KEY", where KEY is the key itself or "sha256:" and the hexadecimal
// SHA-256 of it. One without a name is called "key-N" by its line. Keys of one name are of one
// client. Empty lines and lines that begin with '#' are left out. Throws a kInput Error, naming
// `where` and the line, for a line that is none; a key that is written there is not shown.
AccessKeys ParseKeys(std::string_view text, const std::string& where);
// Reads the keys of a file, warning where others than its owner may read it. Throws as ReadFile and
// ParseKeys.
AccessKeys ReadKeys(const std::string& file);

// Returns the name of the given key; nothing if it is none of them. The time does not depend on the
// key, nor on how much of one it matches.
std::optional<std::string> NameOfKey(const AccessKeys& keys, std::string_view given);

// AccessRules say which requests are allowed.
struct AccessRules {
  AccessKeys keys = {};                    // any of them opens; none: nobody needs one
  std::vector<std::string> hosts = {};     // names by which the service is called, beside loopback
  std::vector<std::string> origins = {};   // "https://host": pages of others that may ask
  std::vector<AddressBlock> proxies = {};  // whose X-Forwarded-For is believed
};

// Returns the name of the key that opens the service to the request, "" where none does and none is
// needed, of `keys` instead of those of the rules: none of them opens where there are none. Throws
// an ApiError: 403 for a request that calls the service by a foreign name (a web page whose name
// was bound to our address) or that comes from a foreign page, 401 for one without its key. Names
// that are numeric addresses cannot be bound to others, and are taken, as is a request without a
// name, which no browser makes. `open`: needs no key.
std::string CheckAccess(const AccessRules& rules, const AccessKeys& keys,
                        const HttpRequest& request, bool open);

// Returns the request's own X-Request-Id if it is valid: up to 128 letters, digits and "-_.:/+=~@".
// Else a new one.
std::string RequestIdOf(const HttpRequest& request);
std::string NewRequestId();

// Returns the client as which a request takes its turns. REQUIRES: the service has filled in client
// and key.
ClientName NameOfClient(const HttpRequest& request);

// Adds the headers that a page of another origin needs; none for others.
void AddCorsHeaders(const AccessRules& rules, const HttpRequest& request, HttpReply& reply);

}  // namespace folio
