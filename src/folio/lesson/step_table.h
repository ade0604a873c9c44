#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/lesson/walkthrough.h"

namespace folio {

// These functions are common to tables in the terminal and on pages.

bool IsMasked(const StepValues& values, int64_t row, int64_t column);
// A number as it is written in a table: "0.1385", "2.1e-09" where no digit would be left, "-inf".
// "" where masked.
std::string CellText(const StepValues& values, int64_t row, int64_t column);

// The largest size of a number that is finite; 0 if there is none.
double LargestSize(const StepValues& values);

// 0 to count - 1; where these are more than `most`, with one -1 in the place of those that are left
// out in the middle, and `most` entries in all. REQUIRES: most >= 3.
std::vector<int64_t> CutMiddle(int64_t count, int64_t most);

// Returns how many of `count` are not among `shown`, which CutMiddle gave.
int64_t LeftOut(const std::vector<int64_t>& shown, int64_t count);

// "6 × 3", "6 numbers", "1 number"
std::string ShapeText(const StepValues& values);

}  // namespace folio
