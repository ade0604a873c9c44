#include "folio/model/layers/positions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace folio {
namespace {

TEST(Sinusoids, AlternateSineAndCosineOfOneAngle) {
  constexpr int64_t P = 9, C = 6;
  std::vector<double> table(P * C, -7);
  FillSinusoids(Tensor(table.data(), {P, C}));
  const auto at = [&](int64_t p, int64_t c) { return table[static_cast<size_t>(p * C + c)]; };
  for (int64_t p = 0; p < P; ++p) {
    EXPECT_DOUBLE_EQ(at(p, 0), std::sin(double(p)));
    EXPECT_DOUBLE_EQ(at(p, 1), std::cos(double(p)));
    EXPECT_NEAR(at(p, 2), std::sin(double(p) / 21.544346900318838), 1e-15);  // 10000^(1/3)
    EXPECT_NEAR(at(p, 5), std::cos(double(p) / 464.15888336127773), 1e-15);  // 10000^(2/3)
  }
}

TEST(Sinusoids, Float32IsTheRoundedTable) {
  std::vector<double> exact(7 * 4);
  std::vector<float> rounded(7 * 4);
  FillSinusoids(Tensor(exact.data(), {7, 4}));
  FillSinusoids(Tensor(rounded.data(), {7, 4}));
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(rounded[i], static_cast<float>(exact[i]));
}

}  // namespace
}  // namespace folio
