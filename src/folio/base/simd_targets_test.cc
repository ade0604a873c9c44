#include "folio/base/simd_targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "folio/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace folio {
namespace {

class Targets : public testing::Test {
 protected:
  ~Targets() override { ForceSimdTarget(""); }
};

Bf16Unit UnitOf(const std::string& target) {
  if (target == "AMX") return Bf16Unit::kAmx;
  return target == "AVX3_BF16" ? Bf16Unit::kAvx512 : Bf16Unit::kPlain;
}

bool Listed(const std::string& name) {
  const std::vector<std::string> names = SimdTargets();
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST_F(Targets, WhatIsForcedIsInUse) {
  for (const std::string& name : SimdTargets()) {
    ForceSimdTarget(name);
    EXPECT_EQ(SimdTarget(), name);

    EXPECT_EQ(Bf16UnitInUse(), UnitOf(name)) << name;
  }
  ForceSimdTarget("");
  EXPECT_EQ(SimdTarget(), SimdTargets().front());
  EXPECT_EQ(Bf16UnitInUse(), UnitOf(SimdTargets().front()));
}

TEST_F(Targets, OnlyAUnitCanBeFasterThanFloat32) {
  for (const std::string& name : SimdTargets()) {
    ForceSimdTarget(name);
    const Bf16Unit unit = Bf16UnitInUse();
    if (unit == Bf16Unit::kAvx512) continue;  // that depends on its maker
    EXPECT_EQ(Bf16UnitIsFast(), unit == Bf16Unit::kAmx) << name;
  }
}

TEST_F(Targets, AWrongNameChangesNothing) {
  const std::string last = SimdTargets().back();
  ForceSimdTarget(last);
  for (const char* wrong : {"AVX9000", "amx", "AVX3_BF1"}) {
    EXPECT_THROW(ForceSimdTarget(wrong), Error);
  }
  EXPECT_EQ(SimdTarget(), last);
}

TEST_F(Targets, AreNamedOnceAndUnitsComeFirst) {
  const std::vector<std::string> names = SimdTargets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  const auto has_no_unit = [](const auto& name) { return UnitOf(name) == Bf16Unit::kPlain; };
  EXPECT_TRUE(std::is_partitioned(names.rbegin(), names.rend(), has_no_unit));
  EXPECT_TRUE(has_no_unit(names.back()));
}

#if defined(__x86_64__)

// The flags that Linux lists of the first processor.
std::set<std::string> FlagsOfTheProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 5, "flags") != 0) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST_F(Targets, UnitsAreThoseThatLinuxSees) {
  const std::set<std::string> flags = FlagsOfTheProcessor();
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags";
  EXPECT_EQ(Listed("AVX3_BF16"), flags.count("avx512_bf16") != 0);
  if (flags.count("amx_bf16") == 0 || flags.count("amx_tile") == 0) {
    EXPECT_FALSE(Listed("AMX"));
  }
}

__attribute__((target("avx512f,avx512bf16"))) float DotOnAvx512() {
  const __m512i ones = _mm512_set1_epi16(0x3F80);
  const __m512 sums = _mm512_dpbf16_ps(_mm512_setzero_ps(), reinterpret_cast<__m512bh>(ones),
                                       reinterpret_cast<__m512bh>(ones));
  float lanes[16];
  _mm512_storeu_ps(lanes, sums);
  return lanes[15];
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64};
  uint8_t rows[16] = {16, 16, 16};
};

__attribute__((target("amx-tile,amx-bf16"))) float DotOnTiles() {
  alignas(64) uint16_t ones[16 * 32];
  std::fill(std::begin(ones), std::end(ones), 0x3F80);
  alignas(64) float sums[16 * 16] = {};
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_loadd(1, ones, 64);
  _tile_loadd(2, ones, 64);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, sums, 64);
  _tile_release();
  return sums[16 * 15 + 15];
}

TEST_F(Targets, UnitsThatAreListedWork) {
  if (Listed("AVX3_BF16")) {
    EXPECT_EQ(DotOnAvx512(), 2);
  }
  if (Listed("AMX")) {
    EXPECT_EQ(DotOnTiles(), 32);
  }
}

#endif

}  // namespace
}  // namespace folio
