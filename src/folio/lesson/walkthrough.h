#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace folio {

// Numbers of one step. One-dimensional values are one row. NaN is "masked", infinities are shown as
// such.
struct StepValues {
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
};

enum class FigureKind {
  kNone,
  kHeatmap,
  kBars,    // of a single row or a single column; masked ones have none
  kCurves,  // a line for each column over the rows: over the row labels where all are numbers
  kTokens,  // the column labels one after the other, with their numbers
};

// One step of a computation: what it is called, how it is computed, its numbers, and why it is
// done.
struct Step {
  std::string name = {};     // "scores"
  std::string formula = {};  // "scores = x xᵀ", UTF-8
  StepValues values = {};
  std::string why = {};  // one sentence
  FigureKind figure = FigureKind::kHeatmap;
  std::string section = {};  // heading of the part of the walk that begins here, or ""
};

// A computation that was really carried out, step by step.
struct Walkthrough {
  std::string topic = {};  // "attention"
  std::string title = {};
  std::string intro = {};  // a paragraph
  std::vector<Step> steps = {};

  std::string next_section = {};  // of the step that is added next

  void Section(std::string heading) { next_section = std::move(heading); }
  void Add(std::string name, std::string formula, StepValues values, std::string why,
           FigureKind figure = FigureKind::kHeatmap) {
    steps.push_back({.name = std::move(name),
                     .formula = std::move(formula),
                     .values = std::move(values),
                     .why = std::move(why),
                     .figure = figure,
                     .section = std::exchange(next_section, {})});
  }
};

}  // namespace folio
