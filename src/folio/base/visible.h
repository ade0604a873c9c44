#pragma once

#include <string>
#include <string_view>

namespace folio {

// A rule says which characters stay as they are in text that is made visible.
struct VisibleRule {
  bool lines = true;    // line breaks and tabs; false: the text is to be on one line
  bool styles = false;  // the colours and weights of letters that folio itself writes, and nothing
                        // else that begins with an escape: somebody's text may be among it
};

// `text` so that it commands no terminal and hides nothing, whoever wrote it: control characters of
// all kinds, those that turn the direction of text, and bytes that are no UTF-8 become escapes that
// are read ("\u001b", "\u202e", "\xff"). Strings of JSON stay the same. Of text in pieces, each of
// whole characters.
std::string Visible(std::string_view text, const VisibleRule& rule = {});

}  // namespace folio
