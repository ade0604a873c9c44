#pragma once

namespace folio {

// The constant says whether this runs under the sanitizers. They see what code does, not how long
// it takes, and make it take many times as long: tests of long inputs then take shorter ones.
#if defined(FOLIO_SANITIZE)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio
