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
// The function that it returns reads the next text, without the break at its end; none after
// Ctrl-D, or when the process was asked to stop (base/signals.h). The arrows bring it back from
// then on, and before it the texts `earlier`, the latest last. `complete` returns what a line could
// begin with instead of `begun`, for the Tab key. With `color` the prompt has some.
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
