#include "folio/commands/chat/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

constexpr wchar_t kInterrupt = 3;  // Ctrl-C
constexpr size_t kLongest = size_t{1} << 20;
constexpr int kLookMilliseconds = 100;  // for signals and for another size of the window

std::wstring Wide(std::string_view text) {
  std::wstring wide;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char one = DecodeUtf8(text, at);
    wide += static_cast<wchar_t>(one.code);
    at += one.length;
  }
  return wide;
}

std::string Narrow(std::wstring_view wide) {
  std::string text;
  for (const wchar_t one : wide) {
    const auto code = static_cast<char32_t>(one);
    const bool scalar = code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF);
    AppendUtf8(scalar ? code : 0xFFFD, text);
  }
  return text;
}

// Columns and rows.
std::pair<int, int> MeasureWindow() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

// Asks the terminal to say what is pasted, or no longer.
void MarkPastes(bool mark) {
  std::fputs(mark ? "\033[?2004h" : "\033[?2004l", stdout);
  std::fflush(stdout);
}

}  // namespace

class LineEditor::Impl {
 public:
  explicit Impl(const LineEditorOptions& options);

  std::optional<std::string> Read();

 private:
  struct FreeEditor {
    void operator()(EditLine* editor) const { el_end(editor); }
  };
  struct FreeHistory {
    void operator()(HistoryW* history) const { history_wend(history); }
  };
  using Key = unsigned char (*)(EditLine*, wint_t);

  static Impl& Of(EditLine* editor) {
    void* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }
  template <unsigned char (Impl::*key)()>
  static unsigned char Call(EditLine* editor, wint_t) {
    return (Of(editor).*key)();
  }
  static int NextOf(EditLine* editor, wchar_t* out) { return Of(editor).Next(out); }
  static wchar_t* PromptOf(EditLine* editor) { return Of(editor).prompt_.data(); }

  void Bind(const wchar_t* key, const wchar_t* action) {
    el_wset(editor_.get(), EL_BIND, key, action, nullptr);
  }
  void Add(const wchar_t* name, Key key) { el_wset(editor_.get(), EL_ADDFN, name, L"", key); }
  void BindKeys();
  void Remember(const std::wstring& line);

  // As libedit's reader: 1 with a character, 0 at the end.
  int Next(wchar_t* out);
  // 1 with a byte, 0 at the end, -1 where Ctrl-C was sent as a signal.
  int NextByte(char* out);
  void FollowWindow();

  unsigned char Clear();
  unsigned char Break();
  unsigned char Paste();
  unsigned char Complete();
  unsigned char Suspend();

  std::unique_ptr<HistoryW, FreeHistory> history_;
  std::unique_ptr<EditLine, FreeEditor> editor_;
  std::wstring prompt_, first_prompt_, next_prompt_;
  std::function<std::vector<std::string>(std::string_view)> complete_;
  std::pair<int, int> window_;
  bool cleared_ = false;  // the line that is read
};

LineEditor::Impl::Impl(const LineEditorOptions& options) : complete_(options.complete) {
  constexpr wchar_t kEscape = 1;
  setlocale(LC_CTYPE, "C.UTF-8");  // for the widths of characters, and to write them
  history_.reset(history_winit());
  editor_.reset(el_init("folio", stdin, stdout, stderr));
  if (!history_ || !editor_) {
    throw Error(ErrorKind::kResource, "the terminal cannot be edited at");
  }
  EditLine* editor = editor_.get();
  HistEventW event{};
  history_w(history_.get(), &event, H_SETSIZE, 2000);
  history_w(history_.get(), &event, H_SETUNIQUE, 1);
  for (const std::string& line : options.earlier) Remember(Wide(line));
  // Behind the last escape must come a character, else it is lost.
  const auto styled = [&](const std::wstring& sign) {
    return options.color ? L"\1\033[1m\1" + sign + L"\1\033[0m\1 " : sign + L" ";
  };
  first_prompt_ = styled(L">");
  next_prompt_ = styled(L".");
  el_wset(editor, EL_CLIENTDATA, this);
  el_wset(editor, EL_EDITOR, L"emacs");
  el_wset(editor, EL_SIGNAL, 0);
  el_wset(editor, EL_HIST, history_w, history_.get());
  el_wset(editor, EL_PROMPT_ESC, &PromptOf, kEscape);
  el_wset(editor, EL_GETCFN, &NextOf);
  el_wset(editor, EL_SETTY, L"-d", L"-isig", nullptr);  // Ctrl-C and Ctrl-Z are keys here
  BindKeys();
}

void LineEditor::Impl::BindKeys() {
  Add(L"folio-clear", &Call<&Impl::Clear>);
  Add(L"folio-break", &Call<&Impl::Break>);
  Add(L"folio-paste", &Call<&Impl::Paste>);
  Add(L"folio-complete", &Call<&Impl::Complete>);
  Add(L"folio-suspend", &Call<&Impl::Suspend>);
  constexpr std::pair<const wchar_t*, const wchar_t*> kBindings[] = {
      {L"^C", L"folio-clear"},         {L"\\e^M", L"folio-break"},
      {L"\\e^J", L"folio-break"},      {L"\\e[200~", L"folio-paste"},
      {L"^I", L"folio-complete"},      {L"^Z", L"folio-suspend"},
      {L"^R", L"em-inc-search-prev"},  {L"^U", L"vi-kill-line-prev"},
      {L"^W", L"ed-delete-prev-word"}, {L"\\e[3~", L"ed-delete-next-char"},
      {L"\\e[H", L"ed-move-to-beg"},   {L"\\e[F", L"ed-move-to-end"},
      {L"\\e[1~", L"ed-move-to-beg"},  {L"\\e[4~", L"ed-move-to-end"},
      {L"\\e[1;5C", L"em-next-word"},  {L"\\e[1;5D", L"ed-prev-word"},
  };
  for (const auto& [key, action] : kBindings) Bind(key, action);
}

void LineEditor::Impl::Remember(const std::wstring& line) {
  HistEventW event{};
  if (!line.empty()) history_w(history_.get(), &event, H_ENTER, line.c_str());
}

std::optional<std::string> LineEditor::Impl::Read() {
  std::wstring whole;
  prompt_ = first_prompt_;
  while (true) {
    FollowWindow();
    MarkPastes(true);
    el_wset(editor_.get(), EL_PREP_TERM, 1);  // before the prompt: what is typed then is a key
    int count = 0;
    const wchar_t* line = el_wgets(editor_.get(), &count);
    MarkPastes(false);
    if (std::exchange(cleared_, false)) {
      whole.clear();
      prompt_ = first_prompt_;
      continue;
    }
    if (line == nullptr || count <= 0) {
      std::fputs("\n", stdout);
      std::fflush(stdout);
      return std::nullopt;
    }
    std::wstring_view typed(line, static_cast<size_t>(count));
    if (typed.ends_with(L'\n')) typed.remove_suffix(1);
    whole += typed;
    if (!whole.ends_with(L'\\')) break;
    whole.back() = L'\n';
    prompt_ = next_prompt_;
  }
  Remember(whole);
  return Narrow(whole);
}

void LineEditor::Impl::FollowWindow() {
  const auto now = MeasureWindow();
  if (now == window_) return;
  window_ = now;
  el_resize(editor_.get());
}

int LineEditor::Impl::NextByte(char* out) {
  while (true) {
    if (TakeInterrupt()) return -1;
    if (StopRequested() != 0) return 0;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = poll(&input, 1, kLookMilliseconds);
    if (ready == 0 && MeasureWindow() != window_) {
      FollowWindow();
      std::fputs("\r\033[J", stdout);  // libedit draws it again from the first column
      el_wset(editor_.get(), EL_REFRESH);
    }
    if (ready <= 0) continue;
    const ssize_t got = read(STDIN_FILENO, out, 1);
    if (got > 0) return 1;
    if (got == 0 || errno != EINTR) return 0;
  }
}

int LineEditor::Impl::Next(wchar_t* out) {
  std::string bytes;
  while (true) {
    char byte = 0;
    const int got = NextByte(&byte);
    if (got == 0) return 0;
    // A Ctrl-D that came while the terminal read whole lines; libedit would take the next key as a
    // character because of it.
    if (got > 0 && byte == '\0') continue;
    bytes += got < 0 ? static_cast<char>(kInterrupt) : byte;
    const Utf8Char one = DecodeUtf8(bytes);
    if (one.status == Utf8Status::kIncomplete) continue;
    const bool valid = one.status == Utf8Status::kValid;
    *out = static_cast<wchar_t>(valid ? one.code : U'\uFFFD');
    return 1;
  }
}

unsigned char LineEditor::Impl::Clear() {
  const LineInfoW* line = el_wline(editor_.get());
  el_cursor(editor_.get(), static_cast<int>(line->lastchar - line->cursor));
  el_wdeletestr(editor_.get(), static_cast<int>(line->lastchar - line->buffer));
  // An empty line, which nobody sees: the next begins behind the end of the history.
  cleared_ = true;
  el_wpush(editor_.get(), L"\n");
  return CC_REFRESH;
}

unsigned char LineEditor::Impl::Break() {
  el_winsertstr(editor_.get(), L"\n");
  return CC_REFRESH;
}

unsigned char LineEditor::Impl::Paste() {
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

unsigned char LineEditor::Impl::Complete() {
  const LineInfoW* line = el_wline(editor_.get());
  const std::string begun =
      Narrow({line->buffer, static_cast<size_t>(line->cursor - line->buffer)});
  const std::vector<std::string> lines =
      complete_ && begun.starts_with('/') ? complete_(begun) : std::vector<std::string>();
  if (lines.empty()) return CC_REFRESH_BEEP;
  std::string_view common = lines.front();
  for (const std::string& one : lines) {
    const auto differ = std::ranges::mismatch(common, one);
    common = common.substr(0, static_cast<size_t>(differ.in1 - common.begin()));
  }
  if (common.size() <= begun.size()) return CC_REFRESH_BEEP;
  el_winsertstr(editor_.get(), Wide(common.substr(begun.size())).c_str());
  return CC_REFRESH;
}

unsigned char LineEditor::Impl::Suspend() {
  el_wset(editor_.get(), EL_PREP_TERM, 0);
  MarkPastes(false);
  raise(SIGTSTP);
  MarkPastes(true);
  el_wset(editor_.get(), EL_PREP_TERM, 1);
  return CC_REDISPLAY;
}

LineEditor::LineEditor(const LineEditorOptions& options) : impl_(std::make_unique<Impl>(options)) {}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::Read() {
  return impl_->Read();
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
