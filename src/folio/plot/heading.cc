#include "folio/plot/heading.h"

#include <algorithm>

namespace folio {
namespace {

constexpr double kTitleFont = 16, kTitleLine = 21, kNoteFont = 12, kNoteLine = 16, kSpace = 8;
constexpr double kBold = 1.15;  // how much wider bold letters are
constexpr size_t kTitleLines = 2, kNoteLines = 4;

}  // namespace

Heading::Heading(std::string_view title, const std::vector<std::string>& notes, double width)
    : title_(WrapText(title, kTitleFont * kBold, width, kTitleLines)) {
  for (const std::string& note : notes) {
    const std::vector<std::string> lines = WrapText(note, kNoteFont, width, kNoteLines);
    notes_.insert(notes_.end(), lines.begin(), lines.end());
  }
  for (const std::string& line : title_) {
    width_ = std::max(width_, TextWidth(line, kTitleFont * kBold));
  }
  for (const std::string& line : notes_) width_ = std::max(width_, TextWidth(line, kNoteFont));
}

double Heading::Height() const {
  if (title_.empty() && notes_.empty()) return 0;
  return kTitleLine * static_cast<double>(title_.size()) +
         kNoteLine * static_cast<double>(notes_.size()) + kSpace;
}

void Heading::Draw(SvgWriter& svg, double x, double y) const {
  for (const std::string& line : title_) {
    svg.Text(line, {{"class", "ink"},
                    {"x", x},
                    {"y", y + kTitleFont * 0.9},
                    {"font-size", kTitleFont},
                    {"font-weight", "600"}});
    y += kTitleLine;
  }
  for (const std::string& line : notes_) {
    svg.Text(line, {{"class", "muted"}, {"x", x}, {"y", y + kNoteFont}, {"font-size", kNoteFont}});
    y += kNoteLine;
  }
}

}  // namespace folio
