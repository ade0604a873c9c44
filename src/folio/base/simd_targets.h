#pragma once

#include <string>
#include <vector>

namespace folio {

// The instruction sets that this program was compiled for and this machine has, best first. "AMX"
// and "AVX3_BF16" are the units of Bf16Unit below, with Highway's best set for everything but
// products of bfloat16 matrices; the others have Highway's names ("AVX3" is AVX-512) and use
// neither unit.
std::vector<std::string> SimdTargets();

// Makes kernels use this target from now on; "" is the best. Throws a kUsage Error for a name not
// in SimdTargets(). Must not be called while an operation runs.
void ForceSimdTarget(const std::string& name);

// The target in use.
std::string SimdTarget();

// The machine's target for everything but products of bfloat16 matrices, by Highway's name.
std::string VectorTarget();

// The unit that multiplies bfloat16 matrices.
enum class Bf16Unit {
  kPlain,   // float32 instructions, after widening
  kAvx512,  // AVX512_BF16's dot products
  kAmx,     // tile registers of AMX, requested from Linux for the whole process
};

// The best unit of this machine that the target in use allows.
Bf16Unit Bf16UnitInUse();

// Returns true if that unit multiplies faster than float32 instructions do. AVX512_BF16 is twice as
// fast on AMD's processors and slower on Intel's.
bool Bf16UnitIsFast();

}  // namespace folio
