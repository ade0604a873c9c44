#include "folio/plot/heading.h"

#include <algorithm>

namespace folio {
namespace {

constexpr double kHeadingFont = 16, kHeadingLine = 21, kNoteFont = 12, kNoteLine = 16,
                 kHeadingSpace = 8;
constexpr size_t kTitleLines = 2, kNoteLines = 4;

}  // namespace

Heading::Heading(std::string_view title, const std::vector<std::string>& notes, double width)
    : title_(WrapText(title, kHeadingFont * kBoldWidth, width, kTitleLines)) {
  for (const std::string& note : notes) {
    const std::vector<std::string> lines = WrapText(note, kNoteFont, width, kNoteLines);
    notes_.insert(notes_.end(), lines.begin(), lines.end());
  }
  for (const std::string& line : title_) {
    width_ = std::max(width_, TextWidth(line, kHeadingFont * kBoldWidth));
  }
  for (const std::string& line : notes_) width_ = std::max(width_, TextWidth(line, kNoteFont));
}

double Heading::Height() const {
  if (title_.empty() && notes_.empty()) return 0;
  return kHeadingLine * static_cast<double>(title_.size()) +
         kNoteLine * static_cast<double>(notes_.size()) + kHeadingSpace;
}

void Heading::Draw(SvgWriter& svg, double x, double y) const {
  for (const std::string& line : title_) {
    svg.Text(line, {{"class", "ink"},
                    {"x", x},
                    {"y", y + kHeadingFont * 0.9},
                    {"font-size", kHeadingFont},
                    {"font-weight", "600"}});
    y += kHeadingLine;
  }
  for (const std::string& line : notes_) {
    svg.Text(line, {{"class", "muted"}, {"x", x}, {"y", y + kNoteFont}, {"font-size", kNoteFont}});
    y += kNoteLine;
  }
}

}  // namespace folio
