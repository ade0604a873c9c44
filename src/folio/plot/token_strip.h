#pragma once

#include <span>
#include <string>
#include <string_view>

namespace folio {

// A token of a text with a colour.
struct StripToken {
  std::string text;         // as shown, see VisibleToken
  double heat = 0;          // 0 to 1: strength of the colour
  int underline = 0;        // 0 none, 1 to 3: number of lines below, so that colour is not the only
                            // mark
  std::string note = {};    // small, below the token
  bool line_break = false;  // the next token begins a new line
};

struct StripOptions {
  std::string title = {};
  std::string key = {};  // the meaning of the colour
  double width = 800;
};

// Tokens in lines, as an SVG document.
std::string TokenStripSvg(std::span<const StripToken> tokens, const StripOptions& options);

}  // namespace folio
