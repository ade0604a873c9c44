#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// One self-contained page that follows the reader's light or dark mode: no script, no font, no file
// from anywhere. Sections come in the order of the calls; a list of them stands before the second
// level's and third level's first heading, if there are several.
class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title) : title_(title) {}

  void Heading(int level,
               std::string_view text);  // 1 to 4; gets an anchor, a place in the contents
  void Paragraph(std::string_view text);
  void Code(std::string_view text);    // preformatted
  void Html(std::string_view markup);  // as it is
  // The first column names the rows. The names of columns that are aligned to the right begin with
  // ">"; every row has a cell for each column.
  void Table(std::span<const std::string> columns, std::span<const std::vector<std::string>> rows);
  // An SVG document of this room, inline, with the ids of its parts made unique.
  void Figure(std::string_view svg, std::string_view caption = {});

  std::string Finish() &&;

 private:
  std::string Contents() const;

  struct Section {
    int level;
    std::string anchor, text;
  };
  std::string title_, body_;
  std::vector<Section> sections_;
  size_t contents_at_ = 0;  // in the body, before the first section below the title
  int figures_ = 0;
};

}  // namespace folio
