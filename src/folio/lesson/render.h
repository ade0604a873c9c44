#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/lesson/walkthrough.h"

namespace folio {

struct TextStyle {
  bool colour = false;  // ANSI 256-colour backgrounds for heat, bold names
  bool utf8 = true;
  int width = 100;  // columns; wider tables lose their middle columns, and say so
  int rows = 24;    // longer tables lose their middle rows
};

// Renders for a terminal each step's name, formula and shape, its numbers in an aligned table, and
// why. A walk without an introduction has no title either.
std::string WalkthroughText(const Walkthrough& walk, const TextStyle& style);

// {"schema":1,"topic","title","intro","steps":[{"name","formula","shape","values","why",
// "row_labels","column_labels"},...]}; values are nested as the shape says, masked ones null,
// infinities the strings "inf" and "-inf".
std::string WalkthroughJson(const Walkthrough& walk);

// The figure of a step as an SVG document, or "".
std::string StepFigure(const Step& step);
// A figure for each step that has one: file name ("attention-03-weights.svg") and document.
std::vector<std::pair<std::string, std::string>> WalkthroughFigures(const Walkthrough& walk);

// Writes them into a directory, which is made, and returns how many there are.
size_t WriteWalkthroughFigures(const Walkthrough& walk, const std::filesystem::path& dir);

// One self-contained page with the same walk and figures.
std::string WalkthroughHtml(const Walkthrough& walk);

}  // namespace folio
