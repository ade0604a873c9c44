#pragma once

#include <cstddef>
#include <string_view>

#include "folio/base/utf8.h"
#include "folio/text/scan.h"
#include "folio/text/split.h"

// The parts that several split patterns have. Pointers as in scan.h.
namespace folio::scan {

struct SpaceRun {
  const unsigned char* end;
  const unsigned char* last;          // where its last character begins
  const unsigned char* past_newline;  // behind the last U+000A or U+000D, nullptr if none
};

// The run of white space from `at` on. REQUIRES: `at` < `end`, and white space is there.
inline SpaceRun ReadSpaces(const unsigned char* at, const unsigned char* end) {
  SpaceRun run = {at, at, nullptr};
  while (run.end < end) {
    const Char c = Read(run.end, end);
    if (c.set != kSpaces) break;
    run.last = run.end;
    run.end += c.length;
    if (*run.last == ' ') {
      while (run.end < end && *run.end == ' ') ++run.end;
      run.last = run.end - 1;
    } else if (*run.last == '\n' || *run.last == '\r') {
      run.past_newline = run.end;
    }
  }
  return run;
}

// Contraction returns this where more text is needed to tell.
inline constexpr size_t kContractionOpen = 9;

// Length in bytes of the contraction ('s 't 'd 'm 'll 've 're) that begins with the apostrophe at
// `at`; 0 if there is none. With `kAnyCase` as (?i:) matches: upper case too, and U+017F for s, its
// lower-case form by simple case folding.
template <bool kAnyCase>
inline size_t Contraction(const unsigned char* at, const unsigned char* end) {
  const auto letter = [&](int i) { return kAnyCase && at[i] < 0x80 ? at[i] | 0x20 : at[i]; };
  if (end - at < 2) return kContractionOpen;
  const int first = letter(1);
  if (first == 's' || first == 't' || first == 'd' || first == 'm') return 2;
  const bool is_long_s = kAnyCase && first == 0xC5;
  if (!is_long_s && first != 'l' && first != 'v' && first != 'r') return 0;
  if (end - at < 3) return kContractionOpen;
  if (is_long_s) return at[2] == 0xBF ? 3 : 0;
  return letter(2) == (first == 'l' ? 'l' : 'e') ? 3 : 0;
}

// A text from where a pretoken begins to where the scanner may look.
struct Window {
  const unsigned char* text;  // where offsets count from
  const unsigned char* at;
  const unsigned char* end;  // of the text; if more may follow, before an incomplete character
  bool at_end;

  Window(std::string_view whole, size_t begin, bool ends_here)
      : text(reinterpret_cast<const unsigned char*>(whole.data())),
        at(text + begin),
        end(text + whole.size()),
        at_end(ends_here) {
    if (!at_end && !whole.empty() && end[-1] >= 0x80) end = text + CompleteUtf8Prefix(whole);
  }

  size_t Offset(const unsigned char* stop) const { return static_cast<size_t>(stop - text); }
  // The end of a pretoken that goes on as far as `stop` allows.
  size_t RunEnd(const unsigned char* stop) const {
    return stop == end && !at_end ? kUndecided : Offset(stop);
  }
};

// The end of \p{N}{1,3}, of which the first ends at `at`.
inline size_t NumberPretoken(const Window& window, const unsigned char* at) {
  for (int more = 0; more < 2; ++more) {
    if (at == window.end) return window.RunEnd(at);
    const Char c = Read(at, window.end);
    if (c.set != kNumbers) break;
    at += c.length;
  }
  return window.Offset(at);
}

}  // namespace folio::scan
