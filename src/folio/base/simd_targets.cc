#include "folio/base/simd_targets.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "folio/base/error.h"
#include "folio/base/strings.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace folio {
namespace {

#if defined(__x86_64__) && defined(__linux__)

struct CpuId {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros where the processor has no such leaf.
CpuId Leaf(unsigned leaf, unsigned subleaf) {
  CpuId id;
  if (__get_cpuid_count(leaf, subleaf, &id.eax, &id.ebx, &id.ecx, &id.edx) == 0) return {};
  return id;
}

bool Has(uint64_t bits, uint64_t all) {
  return (bits & all) == all;
}

// The register states that the operating system keeps for each thread (Intel's manual: XCR0).
uint64_t KeptStates() {
  constexpr unsigned kOsxsave = 1u << 27;
  if (!Has(Leaf(1, 0).ecx, kOsxsave)) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Tile registers are large, so Linux gives them to a process only on request. All threads then have
// them; asking again is harmless. It refuses if a thread's signal stack is too small.
bool LinuxGivesTiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool HasAvx512Bf16() {
  constexpr uint64_t kState = 0xE6;  // SSE, AVX and the three of AVX-512
  constexpr unsigned kAvx512F = 1u << 16, kAvx512Bf16 = 1u << 5;
  return Has(Leaf(7, 0).ebx, kAvx512F) && Has(Leaf(7, 1).eax, kAvx512Bf16) &&
         Has(KeptStates(), kState);
}

bool HasAmxBf16() {
  constexpr uint64_t kState = 0x60000;  // the configuration of the tiles and their data
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  return Has(Leaf(7, 0).edx, kAmxBf16 | kAmxTile) && Has(KeptStates(), kState) && LinuxGivesTiles();
}

#else

bool HasAvx512Bf16() {
  return false;
}
bool HasAmxBf16() {
  return false;
}

#endif

struct Target {
  std::string name;
  int64_t highway;  // the Highway target, or a mask of all that Highway may choose from
  Bf16Unit unit;
};

std::vector<Target> FindTargets() {
  std::vector<Target> targets;
  const int64_t best = hwy::SupportedTargets();
  const bool avx512_bf16 = HasAvx512Bf16();
  if (avx512_bf16 && HasAmxBf16()) targets.push_back({"AMX", best, Bf16Unit::kAmx});
  if (avx512_bf16) targets.push_back({"AVX3_BF16", best, Bf16Unit::kAvx512});
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    targets.push_back({hwy::TargetName(target), target, Bf16Unit::kPlain});
  }
  return targets;
}

const std::vector<Target>& Targets() {
  static const std::vector<Target> targets = FindTargets();  // best first
  return targets;
}

std::atomic<const Target*>& InUse() {
  static std::atomic<const Target*> target = &Targets().front();
  return target;
}

}  // namespace

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (const Target& target : Targets()) names.push_back(target.name);
  return names;
}

void ForceSimdTarget(const std::string& name) {
  for (const Target& target : Targets()) {
    if (!name.empty() && name != target.name) continue;
    InUse() = &target;
    hwy::GetChosenTarget().Update(target.highway);
    return;
  }
  throw UsageError(fmt::format("instruction set \"{}\" is not available on this machine", name),
                   fmt::format("available: {}", Join(SimdTargets(), ", ")), "choose one of them");
}

std::string SimdTarget() {
  return InUse().load()->name;
}

std::string VectorTarget() {
  const Target& target = *InUse().load();
  if (target.unit == Bf16Unit::kPlain) return target.name;
  const auto best = std::ranges::find(Targets(), Bf16Unit::kPlain, &Target::unit);
  return best->name;
}

Bf16Unit Bf16UnitInUse() {
  return InUse().load(std::memory_order_relaxed)->unit;
}

bool Bf16UnitIsFast() {
#if defined(__x86_64__)
  if (Bf16UnitInUse() == Bf16Unit::kAvx512) return __builtin_cpu_is("amd") != 0;
#endif
  return Bf16UnitInUse() == Bf16Unit::kAmx;
}

}  // namespace folio
