#pragma once

#include <string>
#include <vector>

namespace folio {

// The SIMD instruction sets that this program was compiled for and this machine has, best first, by
// Highway's names ("AVX3" is AVX-512).
std::vector<std::string> SimdTargets();

// Makes the kernels of the cpu backend use this one from now on; "" is the best. Throws a kUsage
// Error for a name not in SimdTargets(). Not to be called while an operation runs.
void ForceSimdTarget(const std::string& name);

// The one in use.
std::string SimdTarget();

}  // namespace folio
