#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace folio {

// x[i] = e^x[i] for i in [0, n), within one unit in the last place; the last bit depends on the
// instruction set. REQUIRES: no NaN.
void Exponentials(double* x, size_t n);

// The sum in double of a[i] * b[i] over the size of a. Its order is fixed: as many partial sums as
// 32 bytes hold numbers, which compilers vectorise, joined by pairs.
double Dot(std::span<const float> a, std::span<const float> b);
double Dot(std::span<const double> a, std::span<const double> b);

// The value below which the fraction `p` in [0, 1] of the values lies, linear between neighbours;
// NaNs count as the largest. REQUIRES: there are values.
double Percentile(std::vector<double> values, double p);

// The middle value; for an even number of values the mean of the two in the middle.
double Median(std::vector<double> values);

}  // namespace folio
