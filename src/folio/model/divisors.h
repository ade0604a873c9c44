#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace folio {

// The divisors of n on either side of d, for people: "2 or 5", or "4" if d is one itself. REQUIRES:
// n >= 1, d >= 1.
std::string NearestDivisors(int64_t n, int64_t d);

// A size under the name that people know it by.
struct NamedSize {
  std::string_view name;
  int64_t value = 0;
};

// Throws a kUsage Error that begins with `where` unless the size is positive and below 2^30.
void CheckSize(std::string_view where, NamedSize size);
// The same for both, and unless `part` divides `whole`; it names both numbers and the nearest that
// would do.
void CheckDivides(std::string_view where, NamedSize part, NamedSize whole);

}  // namespace folio
