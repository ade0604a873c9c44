#pragma once

namespace folio {

// True if this runs under sanitizers. They check what code does, not how long it takes, and slow it
// down many times: tests of long inputs then use shorter ones.
#if defined(FOLIO_SANITIZE)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace folio
