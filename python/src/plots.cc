#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>

#include "core.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"

namespace folio::python {
namespace {

using Line = std::tuple<std::string, std::vector<double>, std::vector<double>, bool>;

std::string Curves(const std::vector<Line>& lines, const std::string& title,
                   const std::string& x_label, const std::string& y_label) {
  std::vector<Series> series;
  for (const auto& [label, x, y, faint] : lines) {
    series.push_back({.label = label, .x = x, .y = y, .faint = faint});
  }
  return CurvesSvg(
      series,
      {.title = title, .x_label = x_label, .y_label = y_label, .width = 640, .height = 360});
}

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::string Heatmaps(const std::vector<std::pair<std::string, Matrix>>& matrices,
                     const std::vector<std::string>& labels, const std::string& title,
                     int64_t columns) {
  std::vector<Heatmap> maps;
  for (const auto& [name, matrix] : matrices) {
    Heatmap map{.title = name,
                .rows = static_cast<int64_t>(matrix.shape(0)),
                .columns = static_cast<int64_t>(matrix.shape(1)),
                .values = {matrix.data(), matrix.data() + matrix.size()}};
    if (labels.size() == matrix.shape(0) && labels.size() == matrix.shape(1)) {
      map.row_labels = map.column_labels = labels;
    }
    maps.push_back(std::move(map));
  }
  if (maps.size() == 1) {
    maps[0].caption = title;
    return HeatmapSvg(maps[0], {});
  }
  return HeatmapGridSvg(maps, columns, title, {}, {});
}

}  // namespace

void BindPlots(nb::module_& m) {
  m.def("curves", Curves, nb::arg("lines"), nb::arg("title"), nb::arg("x_label"),
        nb::arg("y_label"), "An SVG figure of lines: (label, x, y, in the background).");
  m.def("heatmaps", Heatmaps, nb::arg("matrices"), nb::arg("labels"), nb::arg("title"),
        nb::arg("columns"),
        nb::sig("def heatmaps(matrices: collections.abc.Sequence[tuple[str, "
                "numpy.typing.NDArray[numpy.float32]]], labels: collections.abc.Sequence[str], "
                "title: str, columns: int) -> str"),
        "An SVG figure of matrices: (title, values).");
}

}  // namespace folio::python
