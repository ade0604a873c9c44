#include "folio/model/divisors.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"

namespace folio {
namespace {

constexpr int64_t kSizeLimit = int64_t{1} << 30;

// The positive multiples of d on either side of n.
std::string NearestMultiples(int64_t d, int64_t n) {
  const int64_t below = n / d * d;
  return below == 0 ? fmt::format("{}", d) : fmt::format("{} or {}", below, below + d);
}

}  // namespace

std::string NearestDivisors(int64_t n, int64_t d) {
  int64_t below = std::min(d, n), above = below;
  while (n % below != 0) --below;
  while (n % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

void CheckSize(std::string_view where, NamedSize size) {
  if (size.value >= 1 && size.value < kSizeLimit) return;
  throw UsageError(fmt::format("{}: {} is out of range", where, size.name),
                   fmt::format("{} is {}", size.name, size.value),
                   fmt::format("set {} to something from 1 to {}", size.name, kSizeLimit - 1));
}

void CheckDivides(std::string_view where, NamedSize part, NamedSize whole) {
  CheckSize(where, part);
  CheckSize(where, whole);
  const int64_t n = whole.value, d = part.value;
  if (n % d == 0) return;
  throw UsageError(fmt::format("{}: {} must divide {}", where, part.name, whole.name),
                   fmt::format("{} is {}, {} is {}", whole.name, n, part.name, d),
                   fmt::format("set {} to {}, or {} to {}", part.name, NearestDivisors(n, d),
                               whole.name, NearestMultiples(d, n)));
}

}  // namespace folio
