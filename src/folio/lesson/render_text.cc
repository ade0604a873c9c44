#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/lesson/render.h"
#include "folio/lesson/step_table.h"
#include "folio/lesson/step_values.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

constexpr int64_t kIndent = 3;
constexpr int64_t kWidestLabel = 18;        // of a row
constexpr int64_t kWidestColumnLabel = 12;  // of a column
constexpr int64_t kLongestBar = 40;
constexpr int64_t kNarrowest = 40;  // columns; narrower terminals get lines that they break

class TextRenderer {
 public:
  explicit TextRenderer(const TextStyle& style)
      : style_(style), width_(std::max<int64_t>(kNarrowest, style.width)) {}

  std::string Render(const Walkthrough& walk) {
    if (!walk.intro.empty()) {
      Line(Bold(Plain(walk.title)));
      text_ += '\n';
      Paragraph(walk.intro, 0);
    }
    int number = 0;
    for (const Step& step : walk.steps) {
      if (!step.section.empty()) Section(step.section);
      if (!text_.empty()) text_ += '\n';
      ShowStep(step, ++number);
    }
    return std::move(text_);
  }

 private:
  std::string Plain(std::string_view text) const {
    return style_.utf8 ? std::string(text) : ToAscii(text);
  }
  std::string Escaped(std::string_view code, std::string_view text) const {
    return style_.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  std::string Bold(std::string_view text) const { return Escaped("1", text); }
  std::string Dim(std::string_view text) const { return Escaped("2", text); }

  // Without the spaces at the end.
  void Line(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }

  void Paragraph(std::string_view text, int64_t indent) {
    for (const std::string& line :
         WrapLines(Plain(text), std::min<int64_t>(width_, 100) - indent)) {
      Line(std::string(static_cast<size_t>(indent), ' ') + line);
    }
  }

  void Section(std::string_view title) {
    const std::string rule = style_.utf8 ? "─" : "-";
    const std::string name = Plain(title);
    std::string line = rule + rule + " " + name + " ";
    while (DisplayWidth(line) < std::min<int64_t>(width_, 100)) line += rule;
    text_ += "\n";
    Line(Bold(line));
  }

  void ShowStep(const Step& step, int number) {
    const std::string shape = Plain(ShapeText(step.values));
    Line(Bold(fmt::format("{}. {}", number, Plain(step.name))) + "  " + Dim(shape));
    if (!step.formula.empty()) Paragraph(step.formula, kIndent);
    const StepValues& values = step.values;
    const bool is_list = values.rows() == 1 || values.columns() == 1;
    if (values.values.empty()) {
      Line("   (nothing)");
    } else if (step.figure == FigureKind::kBars && is_list) {
      ShowBars(values);
    } else {
      ShowTable(values);
    }
    Paragraph(step.why, kIndent);
  }

  // Returns the text of a cell, masked or not.
  std::string Cell(const StepValues& values, int64_t row, int64_t column) const {
    if (IsMasked(values, row, column)) return style_.utf8 ? "·" : ".";
    return CellText(values, row, column);
  }

  // Labels of the rows (or columns), as wide as they may be.
  std::vector<std::string> Labels(const std::vector<std::string>& labels, int64_t widest) const {
    std::vector<std::string> shown;
    for (const std::string& label : labels) {
      shown.push_back(TerminalLabel(label, widest, style_.utf8));
    }
    return shown;
  }

  static int64_t Widest(const std::vector<std::string>& texts) {
    int64_t widest = 0;
    for (const std::string& text : texts) widest = std::max(widest, DisplayWidth(text));
    return widest;
  }

  std::string Coloured(std::string cell, const StepValues& values, int64_t row, int64_t column,
                       double largest) const {
    if (!style_.colour) return cell;
    if (IsMasked(values, row, column)) return Dim(cell);
    if (!values.heat) return cell;
    const auto at = static_cast<size_t>(row * values.columns() + column);
    return HeatColoured(cell, values.values[at], largest);
  }

  void SayLeftOut(const std::vector<int64_t>& shown, int64_t count, std::string_view what) {
    const int64_t missing = LeftOut(shown, count);
    if (missing > 0) Line(fmt::format("   ({} {} in the middle left out)", missing, what));
  }

  void ShowTable(const StepValues& values) {
    const std::vector<std::string> row_labels = Labels(values.row_labels, kWidestLabel);
    std::vector<std::string> column_labels = Labels(values.column_labels, kWidestColumnLabel);
    if (column_labels.empty() && !values.column_axis.empty()) {
      column_labels = Numbered(values.columns());
    }
    const std::string corner = Corner(values, Widest(row_labels));
    const int64_t label_width = std::max(Widest(row_labels), DisplayWidth(corner));
    const int64_t left = label_width + (label_width > 0 ? 1 : 0);
    const std::vector<int64_t> rows = CutMiddle(values.rows(), std::max(3, style_.rows));
    int64_t cell = Widest(column_labels);
    for (const int64_t row : rows) {
      for (int64_t c = 0; row >= 0 && c < values.columns(); ++c) {
        cell = std::max(cell, DisplayWidth(Cell(values, row, c)));
      }
    }
    // Where all fit with less space between them, they get less.
    const bool tight = values.columns() * (cell + 2) > width_ - kIndent - left &&
                       values.columns() * (cell + 1) <= width_ - kIndent - left;
    const std::string_view space = tight ? "" : " ";
    const int64_t room = (width_ - kIndent - left) / (cell + (tight ? 1 : 2));
    const std::vector<int64_t> columns = CutMiddle(values.columns(), std::max<int64_t>(3, room));
    if (!column_labels.empty() || !corner.empty()) {
      std::string line = std::string(kIndent, ' ') + PadRight(corner, left);
      for (const int64_t c : columns) {
        const std::string label =
            c < 0 || column_labels.empty() ? "" : column_labels[static_cast<size_t>(c)];
        line += Padded(label, c, cell) + std::string(space);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      Line(Dim(line));
    }
    const double largest = LargestSize(values);
    for (const int64_t row : rows) {
      const std::string label =
          row < 0 || row_labels.empty() ? "" : row_labels[static_cast<size_t>(row)];
      std::string line = std::string(kIndent, ' ') + PadRight(label, left);
      for (const int64_t c : columns) {
        const bool gap = row < 0 || c < 0;
        const std::string padded =
            Padded(gap ? Gap() : Cell(values, row, c), c, cell) + std::string(space);
        line += gap ? padded : Coloured(padded, values, row, c, largest);
      }
      Line(line);
    }
    SayLeftOut(rows, values.rows(), "rows");
    SayLeftOut(columns, values.columns(), "columns");
  }

  std::string Gap() const { return style_.utf8 ? "…" : "..."; }

  // A cell of a column behind a space; the column of the gap is narrow.
  static std::string Padded(std::string_view cell, int64_t column, int64_t width) {
    return " " + PadLeft(cell, column < 0 ? 3 : width);
  }

  // "query \ key"; without the columns' part where that would widen the labels by much.
  std::string Corner(const StepValues& values, int64_t labels) const {
    constexpr int64_t kMore = 6;
    if (values.rows() == 1 && values.row_labels.empty()) return "";
    std::string corner = values.row_axis;
    if (!corner.empty() && !values.column_axis.empty()) corner += " \\ " + values.column_axis;
    if (DisplayWidth(corner) > labels + kMore) corner = values.row_axis;
    return TerminalLabel(corner, kWidestLabel, style_.utf8);
  }

  // One number a line, with a bar where none is negative.
  void ShowBars(const StepValues& values) {
    const bool row = values.rows() == 1;
    const int64_t count = row ? values.columns() : values.rows();
    const std::vector<std::string> labels =
        Labels(row ? values.column_labels : values.row_labels, kWidestLabel);
    const std::vector<int64_t> lines = CutMiddle(count, std::max(3, style_.rows));
    std::vector<std::string> cells;
    for (int64_t i = 0; i < count; ++i) cells.push_back(Cell(values, row ? 0 : i, row ? i : 0));
    const int64_t left = labels.empty() ? 0 : Widest(labels) + 1, cell = Widest(cells);
    const double largest = LargestSize(values);
    const bool bars = std::ranges::none_of(values.values, [](double v) { return v < 0; });
    const int64_t room = std::clamp<int64_t>(width_ - kIndent - left - cell - 5, 1, kLongestBar);
    for (const int64_t i : lines) {
      if (i < 0) {
        Line(std::string(kIndent, ' ') + PadRight("", left) + " " + PadLeft(Gap(), cell));
        continue;
      }
      const auto at = static_cast<size_t>(i);
      std::string line =
          std::string(kIndent, ' ') + PadRight(labels.empty() ? "" : labels[at], left);
      line +=
          Coloured(" " + PadLeft(cells[at], cell) + " ", values, row ? 0 : i, row ? i : 0, largest);
      if (bars) line += " " + BarOf(values.values[at], largest, room);
      Line(line);
    }
    SayLeftOut(lines, count, "lines");
  }

  std::string BarOf(double value, double largest, int64_t room) const {
    if (!std::isfinite(value) || value <= 0 || largest <= 0) return "";
    const std::string_view eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const long length = std::lround(value / largest * static_cast<double>(room) * 8);
    std::string bar;
    if (!style_.utf8) return std::string(static_cast<size_t>((length + 4) / 8), '#');
    for (long i = 0; i < length / 8; ++i) bar += "█";
    return bar + std::string(eighths[length % 8]);
  }

  const TextStyle& style_;
  int64_t width_;
  std::string text_;
};

}  // namespace

std::string WalkthroughText(const Walkthrough& walk, const TextStyle& style) {
  return TextRenderer(style).Render(walk);
}

}  // namespace folio
