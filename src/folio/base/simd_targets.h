#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace folio {

// The instruction sets that this program was compiled for and this machine has, best first. "AMX"
// and "AVX3_BF16" are the units of Bf16Unit below, with Highway's best set for all that is not a
// product of bfloat16 matrices; the others, by Highway's names ("AVX3" is AVX-512), have neither.
std::vector<std::string> SimdTargets();

// Makes kernels use this one from now on; "" is the best. Throws a kUsage Error for a name not in
// SimdTargets(). Not to be called while an operation runs.
void ForceSimdTarget(const std::string& name);

// The one in use, and its place in SimdTargets().
std::string SimdTarget();
size_t SimdTargetRank();

// The machine's target for all but products of bfloat16 matrices, by Highway's name.
std::string VectorTarget();

// The unit that multiplies bfloat16 matrices.
enum class Bf16Unit {
  kPlain,   // float32 instructions, after widening
  kAvx512,  // AVX512_BF16's dot products
  kAmx,     // the tile registers of AMX; Linux has been asked for them, for the whole process
};

// The best one of the machine that the target in use allows.
Bf16Unit Bf16UnitInUse();

// Returns whether that unit multiplies faster than float32 instructions do. AVX512_BF16 does on
// AMD's processors, by a factor of two; on Intel's it takes longer than them.
bool Bf16UnitIsFast();

}  // namespace folio
