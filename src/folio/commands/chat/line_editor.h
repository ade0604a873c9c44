#pragma once

#include <termios.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// Edits lines typed at the terminal of standard input and output, with the keys of emacs. Alt-Enter
// inserts a line break, and so does a backslash at the end; pasted text counts as one text. Ctrl-C
// clears the line. Texts are UTF-8, whatever the locale. Only one may exist in a process.
//
// The returned function reads the next text, without the line break at its end; nothing after
// Ctrl-D, or if the process was asked to stop (term/signals.h). The arrow keys recall it later, and
// before it the texts `earlier`, the latest last. `complete` returns completions of `begun`, for
// the Tab key. With `color` the prompt is coloured.
std::function<std::optional<std::string>()> OpenLineEditor(
    bool color, std::span<const std::string> earlier,
    std::function<std::vector<std::string>(std::string_view begun)> complete);

// While it exists the terminal does not show what is typed; Ctrl-C stays a signal.
class TypedUnseen {
 public:
  TypedUnseen();
  ~TypedUnseen();
  TypedUnseen(const TypedUnseen&) = delete;

 private:
  std::optional<termios> before_;
};

}  // namespace folio
