#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/report/report.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

constexpr int64_t kIndent = 3;
constexpr int64_t kWidestLabel = 18;        // columns
constexpr int64_t kWidestColumnLabel = 12;  // columns
constexpr int64_t kLongestBar = 40;
constexpr int64_t kAnyWidth = 1 << 30;
constexpr int64_t kNarrowest = 40;  // columns; narrower terminals break the lines themselves

// The largest magnitude of a finite number; 0 if there is none.
double LargestSize(const Matrix& values) {
  double largest = 0;
  for (const double value : values.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

class TextRenderer {
 public:
  TextRenderer(const Terminal& terminal, int rows)
      : terminal_(terminal),
        width_(std::max<int64_t>(kNarrowest, terminal.width)),
        rows_(std::max(3, rows)) {}

  std::string Render(const Report& report) {
    // A walk's prose is complete in ASCII too; the tokens of a view are not, and stay so in pipes.
    utf8_ = report.topic.empty() ? !AsciiOnly(terminal_) : terminal_.utf8;
    if (!report.intro.empty()) {
      Line(Bold(Prose(report.title)));
      text_ += '\n';
      Paragraph(report.intro, 0);
    }
    fact_columns_ = FactColumns(report);
    int step = 0;
    for (const ReportPart& part : report.parts) {
      if (part.medium == Medium::kPage) continue;
      const std::string before = std::exchange(text_, {});
      Show(part, part.name.empty() ? 0 : ++step);
      text_ = before + (before.empty() || text_.empty() ? "" : "\n") + text_;
    }
    return std::move(text_);
  }

 private:
  std::string Prose(std::string_view text) const {
    return utf8_ ? std::string(text) : ToAscii(text);
  }
  std::string Bold(std::string_view text) const { return Styled(terminal_, Style::kBold, text); }
  std::string Dim(std::string_view text) const { return Styled(terminal_, Style::kDim, text); }

  // Appends a line without trailing spaces.
  void Line(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }

  void Paragraph(std::string_view text, int64_t indent) {
    for (const std::string& line :
         WrapLines(Prose(text), std::min<int64_t>(width_, 100) - indent)) {
      Line(std::string(static_cast<size_t>(indent), ' ') + line);
    }
  }

  void Section(std::string_view title) {
    const std::string rule = utf8_ ? "─" : "-";
    std::string line = rule + rule + " " + Prose(title) + " ";
    while (DisplayWidth(line) < std::min<int64_t>(width_, 100)) line += rule;
    Line(Bold(line));
    text_ += "\n";
  }

  void Show(const ReportPart& part, int step) {
    if (step > 0) {
      ShowStep(part, step);
      return;
    }
    Paragraph(part.text, 0);
    if (part.terminal) text_ += part.terminal(terminal_);
    text_ +=
        FactLines(part.facts, fact_columns_, [this](const Value& value) { return Written(value); });
    ShowRows(part.table);
    // A heading without other members belongs to a figure.
    if (!part.heading.empty() && !text_.empty())
      text_ = Bold(Spelled(terminal_, part.heading)) + "\n" + text_;
  }

  // As many items of a list as fit.
  std::string Written(const Value& value, int64_t room = kAnyWidth) const {
    std::string text = Spelled(terminal_, value.text);
    for (const Value& one : value.list) {
      const std::string next = (text.empty() ? "" : "  ") + Written(one);
      room -= DisplayWidth(next);
      if (room < 0) break;
      text += next;
    }
    if (value.warns) return Styled(terminal_, Style::kWarning, text);
    return value.heat ? Heated(terminal_, *value.heat, text) : text;
  }

  void ShowRows(const ReportTable& table) {
    if (table.rows.empty()) return;
    int64_t room = kAnyWidth;
    if (terminal_.is_terminal) {
      // The room that the other columns leave for lists.
      TextTable others = AsTextTable(table, [&](const Value& value) { return Written(value, 0); });
      const std::string text = RenderTable(others);
      room = terminal_.width - DisplayWidth(text.substr(0, text.find('\n')));
      for (const Cell& cell : table.rows.front()) {
        if (!cell.value.list.empty()) room += DisplayWidth(cell.title);
      }
    }
    const TextTable shown =
        AsTextTable(table, [&](const Value& value) { return Written(value, room); });
    text_ += table.turns && terminal_.is_terminal ? RenderTableWithin(shown, terminal_.width)
                                                  : RenderTable(shown);
  }

  void ShowStep(const ReportPart& step, int number) {
    if (!step.heading.empty()) Section(step.heading);
    const std::string shape = Prose(ShapeText(step.values));
    Line(Bold(fmt::format("{}. {}", number, Prose(step.name))) + "  " + Dim(shape));
    if (!step.formula.empty()) Paragraph(step.formula, kIndent);
    const Matrix& values = step.values;
    const bool is_list = values.rows() == 1 || values.columns() == 1;
    if (values.values.empty()) {
      Line("   (nothing)");
    } else if (step.figure == FigureKind::kBars && is_list) {
      ShowBars(values);
    } else {
      ShowTable(values);
    }
    Paragraph(step.text, kIndent);
  }

  // Returns the text of a cell, masked or not.
  std::string NumberText(const Matrix& values, int64_t row, int64_t column) const {
    if (IsMasked(values, row, column)) return utf8_ ? "·" : ".";
    return CellText(values, row, column);
  }

  // Labels of the rows (or columns), cut to `widest`.
  std::vector<std::string> Labels(const std::vector<std::string>& labels, int64_t widest) const {
    std::vector<std::string> shown;
    for (const std::string& label : labels) {
      shown.push_back(TerminalLabel(label, widest, utf8_));
    }
    return shown;
  }

  static int64_t Widest(const std::vector<std::string>& texts) {
    int64_t widest = 0;
    for (const std::string& text : texts) widest = std::max(widest, DisplayWidth(text));
    return widest;
  }

  std::string Coloured(std::string cell, const Matrix& values, int64_t row, int64_t column,
                       double largest) const {
    if (!terminal_.color) return cell;
    if (IsMasked(values, row, column)) return Dim(cell);
    if (!values.heat) return cell;
    return HeatColoured(cell, values.At(row, column), largest);
  }

  void SayLeftOut(const std::vector<int64_t>& shown, int64_t count, const std::string& what) {
    const std::string said = LeftOutText(shown, count, what);
    if (!said.empty()) Line("   " + said);
  }

  void ShowTable(const Matrix& values) {
    const std::vector<std::string> row_labels = Labels(values.row_labels, kWidestLabel);
    std::vector<std::string> column_labels = Labels(values.column_labels, kWidestColumnLabel);
    if (column_labels.empty() && !values.column_axis.empty()) {
      column_labels = Numbered(values.columns());
    }
    const std::string corner = Corner(values, Widest(row_labels));
    const int64_t label_width = std::max(Widest(row_labels), DisplayWidth(corner));
    const int64_t left = label_width + (label_width > 0 ? 1 : 0);
    const std::vector<int64_t> rows = CutMiddle(values.rows(), rows_);
    int64_t cell = Widest(column_labels);
    for (const int64_t row : rows) {
      for (int64_t c = 0; row >= 0 && c < values.columns(); ++c) {
        cell = std::max(cell, DisplayWidth(NumberText(values, row, c)));
      }
    }
    // If all columns fit with less space between them, they get less.
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
            Padded(gap ? Gap() : NumberText(values, row, c), c, cell) + std::string(space);
        line += gap ? padded : Coloured(padded, values, row, c, largest);
      }
      Line(line);
    }
    SayLeftOut(rows, values.rows(), "rows");
    SayLeftOut(columns, values.columns(), "columns");
  }

  std::string Gap() const { return utf8_ ? "…" : "..."; }

  // A cell with a space before it; the column of the gap is narrow.
  static std::string Padded(std::string_view cell, int64_t column, int64_t width) {
    return " " + PadLeft(cell, column < 0 ? 3 : width);
  }

  // "query \ key"; without the columns' part if that would widen the labels by much.
  std::string Corner(const Matrix& values, int64_t labels) const {
    constexpr int64_t kMore = 6;
    if (values.rows() == 1 && values.row_labels.empty()) return "";
    std::string corner = values.row_axis;
    if (!corner.empty() && !values.column_axis.empty()) corner += " \\ " + values.column_axis;
    if (DisplayWidth(corner) > labels + kMore) corner = values.row_axis;
    return TerminalLabel(corner, kWidestLabel, utf8_);
  }

  // One number a line, with a bar if none is negative.
  void ShowBars(const Matrix& values) {
    const bool row = values.rows() == 1;
    const int64_t count = row ? values.columns() : values.rows();
    const std::vector<std::string> labels =
        Labels(row ? values.column_labels : values.row_labels, kWidestLabel);
    const std::vector<int64_t> lines = CutMiddle(count, rows_);
    std::vector<std::string> cells;
    for (int64_t i = 0; i < count; ++i)
      cells.push_back(NumberText(values, row ? 0 : i, row ? i : 0));
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
    if (!utf8_) return std::string(static_cast<size_t>((length + 4) / 8), '#');
    for (long i = 0; i < length / 8; ++i) bar += "█";
    return bar + std::string(eighths[length % 8]);
  }

  const Terminal& terminal_;
  bool utf8_ = true;
  int64_t width_;
  int64_t rows_;
  int64_t fact_columns_ = 0;
  std::string text_;
};

}  // namespace

std::string ReportText(const Report& report, const Terminal& terminal, int rows) {
  return TextRenderer(terminal, rows).Render(report);
}

}  // namespace folio
