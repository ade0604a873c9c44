#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

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
// written by whoever asks.
std::string ClientAddress(const std::vector<AddressBlock>& proxies, const std::string& peer,
                          std::string_view forwarded);

// Returns the name under which an address is counted as one client: the address itself, but of IPv6
// the first 64 bits, since whoever has one of these addresses has all of them.
std::string NetworkOf(const std::string& address);

}  // namespace folio
