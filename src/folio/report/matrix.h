#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace folio {

// A Matrix holds numbers with labels, to be shown. One-dimensional ones are one row. NaN is
// "masked", infinities are shown as such.
struct Matrix {
  std::vector<int64_t> shape = {};  // 1 or 2 sizes
  std::vector<double> values = {};
  std::vector<std::string> row_labels = {}, column_labels = {};  // none, or one for each
  std::string row_axis = {}, column_axis = {};                   // "query", "key"
  bool heat = true;                                              // colour says the size
  int digits = 4;                                                // behind the point
  bool scientific = false;  // "2.0611e-09": for numbers that are far apart
  bool masks = true;        // false: NaN is no mask but a result gone wrong, shown as "nan"

  int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
  int64_t columns() const { return shape.empty() ? 0 : shape.back(); }
  double At(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns() + column)];
  }
};

struct MatrixLabels {
  std::vector<std::string> rows = {}, columns = {};  // none, or one for each
  std::string row_axis = {}, column_axis = {};
};

// REQUIRES: as many values as the shape has.
Matrix MakeMatrix(std::vector<int64_t> shape, std::vector<double> values, MatrixLabels labels = {});
// A row of numbers.
Matrix RowValues(std::vector<double> values, MatrixLabels labels = {});
// `rows` stacked, all equally long: the same thing done in several ways.
Matrix StackedValues(const std::vector<std::vector<double>>& rows, MatrixLabels labels = {});
// "0", "1", ...
std::vector<std::string> Numbered(int64_t count, const std::string& prefix = "");

// Returns the values without colours, for numbers that are no sizes, such as ids.
Matrix Plain(Matrix values, int digits = 4);
// Returns the values with exponents, for numbers that are far apart.
Matrix Scientific(Matrix values);
// Makes values that may not be seen NaN. REQUIRES: as many marks as values, 0 for "masked".
void MarkMasked(Matrix& values, std::span<const uint8_t> mask);

// What follows is common to tables in the terminal, on pages and in figures.

bool IsMasked(const Matrix& values, int64_t row, int64_t column);
// A number as it is written in a table: "0.1385", "2.1e-09" where no digit would be left, "-inf".
// "" where masked.
std::string CellText(const Matrix& values, int64_t row, int64_t column);
// The largest size of a number that is finite; 0 if there is none.
double LargestSize(const Matrix& values);
// "6 × 3", "6 numbers", "1 number"
std::string ShapeText(const Matrix& values);

// 0 to count - 1; where these are more than `most`, with one -1 in the place of those that are left
// out in the middle, and `most` entries in all. REQUIRES: most >= 3.
std::vector<int64_t> CutMiddle(int64_t count, int64_t most);
// "(44 rows in the middle left out)" of `count`, of which CutMiddle gave `shown`; "" if all are.
std::string LeftOutText(const std::vector<int64_t>& shown, int64_t count, const std::string& what);

}  // namespace folio
