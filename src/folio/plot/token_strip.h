#pragma once

#include <span>
#include <string>
#include <string_view>

namespace folio {

// A token of a text with a colour.
struct StripToken {
  std::string text;         // as shown, see VisibleToken
  double heat = 0;          // 0 to 1: how much of the colour
  int underline = 0;        // 0 none, 1 to 3: as many lines below, so that colour is not alone
  std::string note = {};    // small, below the token
  bool line_break = false;  // the next token begins a line
};

struct StripOptions {
  std::string title = {};
  std::string key = {};  // what the colour means
  double width = 800;
};

// Tokens one after the other in lines, as an SVG document.
std::string TokenStripSvg(std::span<const StripToken> tokens, const StripOptions& options);

}  // namespace folio
