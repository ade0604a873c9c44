#include "folio/commands/chat/line_editor.h"

#include <fmt/format.h>
#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

constexpr wchar_t kInterrupt = 3;  // Ctrl-C
constexpr size_t kLongest = size_t{1} << 20;
constexpr int kLookMilliseconds = 100;  // for signals and for a new window size

// Columns and rows.
std::pair<int, int> MeasureWindow() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

// Asks the terminal to mark pasted text, or to stop that.
void MarkPastes(bool mark) {
  std::fputs(mark ? "\033[?2004h" : "\033[?2004l", stdout);
  std::fflush(stdout);
}

class Editor {
 public:
  using Completer = std::function<std::vector<std::string>(std::string_view)>;

  Editor(bool color, std::span<const std::string> earlier, Completer complete)
      : color_(color), complete_(std::move(complete)) {
    constexpr int kEscape = 1;
    setlocale(LC_CTYPE, "C.UTF-8");  // for reading and writing characters, and their widths
    editor_.reset(el_init("folio", stdin, stdout, stderr));
    EditLine* editor = editor_.get();
    if (!history_ || !editor_) {
      throw Error(ErrorKind::kResource, "cannot edit lines on this terminal");
    }
    HistEvent event{};
    history(history_.get(), &event, H_SETSIZE, 2000);
    history(history_.get(), &event, H_SETUNIQUE, 1);
    for (const std::string& line : earlier) Remember(line);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_HIST, history, history_.get());
    el_set(editor, EL_PROMPT_ESC, &PromptOf, kEscape);
    el_wset(editor, EL_GETCFN, &NextOf);
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr);  // Ctrl-C and Ctrl-Z are keys here
    BindKeys();
  }

  std::optional<std::string> Read() {
    std::string whole;
    prompt_ = Prompt('>');
    while (true) {
      FollowWindow();
      MarkPastes(true);
      el_set(editor_.get(), EL_PREP_TERM, 1);  // before the prompt, so that what is typed then
                                               // counts as keys
      int count = 0;
      const char* line = el_gets(editor_.get(), &count);
      MarkPastes(false);
      if (std::exchange(cleared_, false)) {
        whole.clear();
        prompt_ = Prompt('>');
        continue;
      }
      if (line == nullptr || count <= 0) {
        std::fputs("\n", stdout);
        std::fflush(stdout);
        return std::nullopt;
      }
      whole += line;
      if (whole.ends_with('\n')) whole.pop_back();
      if (!whole.ends_with('\\')) break;
      whole.back() = '\n';
      prompt_ = Prompt('.');
    }
    Remember(whole);
    return whole;
  }

 private:
  static Editor& Of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  template <unsigned char (Editor::*key)()>
  static unsigned char Call(EditLine* editor, wint_t) {
    return (Of(editor).*key)();
  }
  static int NextOf(EditLine* editor, wchar_t* out) { return Of(editor).Next(out); }
  static char* PromptOf(EditLine* editor) { return Of(editor).prompt_.data(); }

  void BindKeys() {
    EditLine* editor = editor_.get();
    // libedit leaks copies of names in char.
    el_wset(editor, EL_ADDFN, L"folio-clear", L"", &Call<&Editor::Clear>);
    el_wset(editor, EL_ADDFN, L"folio-break", L"", &Call<&Editor::Break>);
    el_wset(editor, EL_ADDFN, L"folio-paste", L"", &Call<&Editor::Paste>);
    el_wset(editor, EL_ADDFN, L"folio-complete", L"", &Call<&Editor::Complete>);
    el_wset(editor, EL_ADDFN, L"folio-suspend", L"", &Call<&Editor::Suspend>);
    constexpr std::pair<const char*, const char*> kBindings[] = {
        {"^C", "folio-clear"},         {"\\e^M", "folio-break"},
        {"\\e^J", "folio-break"},      {"\\e[200~", "folio-paste"},
        {"^I", "folio-complete"},      {"^Z", "folio-suspend"},
        {"^R", "em-inc-search-prev"},  {"^U", "vi-kill-line-prev"},
        {"^W", "ed-delete-prev-word"}, {"\\e[3~", "ed-delete-next-char"},
        {"\\e[H", "ed-move-to-beg"},   {"\\e[F", "ed-move-to-end"},
        {"\\e[1~", "ed-move-to-beg"},  {"\\e[4~", "ed-move-to-end"},
        {"\\e[1;5C", "em-next-word"},  {"\\e[1;5D", "ed-prev-word"},
    };
    for (const auto& [key, action] : kBindings) el_set(editor, EL_BIND, key, action, nullptr);
  }

  void Remember(const std::string& line) {
    HistEvent event{};
    if (!line.empty()) history(history_.get(), &event, H_ENTER, line.c_str());
  }

  // An escape at the end would be lost: a character must follow it.
  std::string Prompt(char sign) const {
    return color_ ? fmt::format("\1\033[1m\1{}\1\033[0m\1 ", sign) : fmt::format("{} ", sign);
  }

  // libedit's reader: 1 with a character, 0 at the end.
  int Next(wchar_t* out) {
    std::string bytes;
    while (true) {
      char byte = 0;
      const int got = NextByte(&byte);
      if (got == 0) return 0;
      // A Ctrl-D that was typed while the terminal still read whole lines; it would make libedit
      // treat the next key as a character.
      if (got > 0 && byte == '\0') continue;
      bytes += got < 0 ? static_cast<char>(kInterrupt) : byte;
      const Utf8Char one = DecodeUtf8(bytes);
      if (one.status == Utf8Status::kIncomplete) continue;
      const bool valid = one.status == Utf8Status::kValid;
      *out = static_cast<wchar_t>(valid ? one.code : U'\uFFFD');
      return 1;
    }
  }

  // 1 with a byte, 0 at the end, -1 if Ctrl-C came as a signal.
  int NextByte(char* out) {
    while (true) {
      if (TakeInterrupt()) return -1;
      if (StopRequested() != 0) return 0;
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      const int ready = poll(&input, 1, kLookMilliseconds);
      if (ready == 0 && MeasureWindow() != window_) {
        FollowWindow();
        std::fputs("\r\033[J", stdout);  // libedit redraws it from the first column
        el_set(editor_.get(), EL_REFRESH);
      }
      if (ready <= 0) continue;
      const ssize_t got = read(STDIN_FILENO, out, 1);
      if (got > 0) return 1;
      if (got == 0 || errno != EINTR) return 0;
    }
  }

  void FollowWindow() {
    const auto now = MeasureWindow();
    if (now == window_) return;
    window_ = now;
    el_resize(editor_.get());
  }

  unsigned char Clear() {
    const LineInfoW* line = el_wline(editor_.get());
    el_cursor(editor_.get(), static_cast<int>(line->lastchar - line->cursor));
    el_wdeletestr(editor_.get(), static_cast<int>(line->lastchar - line->buffer));
    // An invisible empty line: the next line begins behind the end of the history.
    cleared_ = true;
    el_push(editor_.get(), "\n");
    return CC_REFRESH;
  }

  unsigned char Break() {
    el_insertstr(editor_.get(), "\n");
    return CC_REFRESH;
  }

  unsigned char Paste() {
    constexpr std::wstring_view kEnd = L"\033[201~";
    std::wstring pasted;
    for (wchar_t one = 0; !pasted.ends_with(kEnd);) {
      if (Next(&one) != 1) return CC_EOF;
      pasted += one == L'\r' ? L'\n' : one;
      if (one == kInterrupt || pasted.size() > kLongest) return CC_REFRESH_BEEP;
    }
    pasted.resize(pasted.size() - kEnd.size());
    while (pasted.ends_with(L'\n')) pasted.pop_back();
    std::erase_if(pasted, [](wchar_t one) { return one < L' ' && one != L'\n' && one != L'\t'; });
    return el_winsertstr(editor_.get(), pasted.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
  }

  unsigned char Complete() {
    const LineInfo* line = el_line(editor_.get());
    const std::string begun(line->buffer, line->cursor);
    const std::vector<std::string> lines =
        begun.starts_with('/') ? complete_(begun) : std::vector<std::string>();
    if (lines.empty()) return CC_REFRESH_BEEP;
    std::string_view common = lines.front();
    for (const std::string& one : lines) {
      const auto differ = std::ranges::mismatch(common, one);
      common = common.substr(0, static_cast<size_t>(differ.in1 - common.begin()));
    }
    if (common.size() <= begun.size()) return CC_REFRESH_BEEP;
    el_insertstr(editor_.get(), std::string(common.substr(begun.size())).c_str());
    return CC_REFRESH;
  }

  unsigned char Suspend() {
    el_set(editor_.get(), EL_PREP_TERM, 0);
    MarkPastes(false);
    raise(SIGTSTP);
    MarkPastes(true);
    el_set(editor_.get(), EL_PREP_TERM, 1);
    return CC_REDISPLAY;
  }

  std::unique_ptr<History, decltype(&history_end)> history_{history_init(), &history_end};
  std::unique_ptr<EditLine, decltype(&el_end)> editor_{nullptr, &el_end};
  bool color_;
  std::string prompt_;
  Completer complete_;
  std::pair<int, int> window_;
  bool cleared_ = false;  // the line being read was cleared
};

}  // namespace

std::function<std::optional<std::string>()> OpenLineEditor(
    bool color, std::span<const std::string> earlier,
    std::function<std::vector<std::string>(std::string_view begun)> complete) {
  const auto editor = std::make_shared<Editor>(color, earlier, std::move(complete));
  return [editor] { return editor->Read(); };
}

TypedUnseen::TypedUnseen() {
  termios now{};
  if (tcgetattr(STDIN_FILENO, &now) != 0) return;
  before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

TypedUnseen::~TypedUnseen() {
  if (before_) tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

}  // namespace folio
