#include "folio/inspect/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/file.h"

namespace folio {

void WriteFigure(Console& console, const std::filesystem::path& path, std::string_view svg) {
  CreateParentOf(path);
  WriteFileAtomically(path, svg);
  console.Note(fmt::format("wrote {}", path.string()));
}

void CheckFigureFile(const std::string& path) {
  std::error_code ignored;
  if (path == "-") {
    throw UsageError("--svg -: a figure does not go to standard output", {}, "name a file");
  }
  if (!path.empty() && std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format("--svg {}: is a directory", path), {}, "name a file");
  }
}

void CheckFigureDirectory(const std::string& path) {
  std::error_code ignored;
  if (path == "-") {
    throw UsageError("--svg -: figures do not go to standard output", {}, "name a directory");
  }
  if (!path.empty() && std::filesystem::exists(path, ignored) &&
      !std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format("--svg {}: exists and is not a directory", path), {},
                     "name a directory: there is a figure for each part");
  }
}

int64_t PoolingStep(const Heatmap& map, int64_t most) {
  FOLIO_CHECK(most >= 1, "a map has cells");
  return std::max<int64_t>(1, (std::max(map.rows, map.columns) + most - 1) / most);
}

Heatmap Pooled(const Heatmap& map, int64_t step) {
  if (step == 1) return map;
  Heatmap pooled{.title = map.title, .caption = map.caption};
  pooled.rows = (map.rows + step - 1) / step;
  pooled.columns = (map.columns + step - 1) / step;
  pooled.row_axis = map.row_axis;
  pooled.column_axis = map.column_axis;
  pooled.values.assign(static_cast<size_t>(pooled.rows * pooled.columns),
                       std::numeric_limits<float>::quiet_NaN());
  for (int64_t row = 0; row < map.rows; ++row) {
    for (int64_t column = 0; column < map.columns; ++column) {
      const float value = map.values[static_cast<size_t>(row * map.columns + column)];
      float& cell = pooled.values[static_cast<size_t>(row / step * pooled.columns + column / step)];
      if (std::isfinite(value)) cell = std::isfinite(cell) ? std::max(cell, value) : value;
    }
  }
  return pooled;
}

}  // namespace folio
