#include "folio/serve/client_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "folio/base/error.h"

namespace folio {
namespace {

using AddressBytes = std::array<uint8_t, 16>;
constexpr AddressBytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};  // ::ffff:0.0.0.0
constexpr int kMappedBits = 96;

std::optional<AddressBytes> ParseAddress(std::string_view text) {
  const std::string numeric(text);
  AddressBytes bytes = kMapped;
  if (inet_pton(AF_INET, numeric.c_str(), bytes.data() + kMappedBits / 8) == 1) return bytes;
  if (inet_pton(AF_INET6, numeric.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

bool SameBits(const AddressBytes& a, const AddressBytes& b, int bits) {
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    if (((a[byte] ^ b[byte]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

bool IsV4(const AddressBytes& bytes) {
  return SameBits(bytes, kMapped, kMappedBits);
}

std::string Text(const AddressBytes& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = IsV4(bytes);
  inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data() + (v4 ? kMappedBits / 8 : 0), text.data(),
            text.size());
  return text.data();
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

AddressBlock::AddressBlock(std::string_view text, std::string_view flag) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::optional<AddressBytes> bytes = ParseAddress(text.substr(0, slash));
  const int most = bytes && IsV4(*bytes) ? 128 - kMappedBits : 128;
  int bits = most;
  bool valid = bytes.has_value();
  if (slash < text.size()) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    valid = valid && error == std::errc() && end == digits.data() + digits.size();
  }
  if (!valid || bits < 0 || bits > most) {
    throw UsageError(fmt::format("{}: '{}' is no address or block of addresses", flag, text),
                     "expected such as 127.0.0.1, 10.0.0.0/8 or fd00::/8");
  }
  bytes_ = *bytes;
  bits_ = bits + 128 - most;
}

bool AddressBlock::Has(std::string_view address) const {
  const std::optional<AddressBytes> bytes = ParseAddress(address);
  return bytes && SameBits(*bytes, bytes_, bits_);
}

std::string ClientAddress(const std::vector<AddressBlock>& proxies, const std::string& peer,
                          std::string_view forwarded) {
  const std::optional<AddressBytes> known = ParseAddress(peer);
  std::string client = known ? Text(*known) : peer;
  const auto is_proxy = [&] {
    return std::ranges::any_of(proxies,
                               [&](const AddressBlock& block) { return block.Has(client); });
  };
  while (is_proxy() && !forwarded.empty()) {
    const size_t comma = forwarded.rfind(',');
    const bool first = comma == std::string_view::npos;
    const std::optional<AddressBytes> next =
        ParseAddress(Trimmed(first ? forwarded : forwarded.substr(comma + 1)));
    if (!next) break;  // nothing that a proxy wrote
    client = Text(*next);
    forwarded = first ? std::string_view() : forwarded.substr(0, comma);
  }
  return client;
}

std::string NetworkOf(const std::string& address) {
  constexpr size_t kBytes = 8;
  std::optional<AddressBytes> bytes = ParseAddress(address);
  if (!bytes || IsV4(*bytes)) return address;
  std::fill(bytes->begin() + kBytes, bytes->end(), uint8_t{0});
  return Text(*bytes);
}

}  // namespace folio
