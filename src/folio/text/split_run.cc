#include "folio/text/scan.h"
#include "folio/text/split.h"

namespace folio {

// A run of one class from the second character on belongs to the piece that the first one leads.
// GPT-2's pattern knows no kinds of letters. In the others there are two exceptions: what white
// space becomes depends on line breaks behind it, so all of it has to be line breaks, or the same
// character; and o200k gives capitals back if what came before them can end a word.
size_t CertainRun(SplitPattern pattern, std::string_view text) {
  if (text.empty()) return 0;
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = begin + text.size();
  const scan::Char first = scan::Read(begin, end);
  const unsigned char* at = begin + first.length;
  if (at == end) return 0;
  scan::ClassSet run = scan::Read(at, end).set;
  if (run == scan::kSpaces && pattern != SplitPattern::kGpt2) {
    const size_t from = *at == '\n' ? first.length : 0;
    return text.find_first_not_of(static_cast<char>(*at), from) == text.npos ? text.size() : 0;
  }
  if (pattern == SplitPattern::kGpt2) {
    for (const scan::ClassSet one : {scan::kLetters, scan::kOthers}) {
      if ((run & one) != 0) run = one;
    }
  }
  const bool capitals = (run & scan::kUppers & ~scan::kCaseless) != 0;
  if (pattern == SplitPattern::kO200k && capitals && (first.set & scan::kCaseless) != 0) return 0;
  // What the end cuts off may belong to the run or not: it is not counted.
  while (end - at >= 4) {
    const scan::Char c = scan::Read(at, end);
    if ((c.set & run) == 0) return 0;
    at += c.length;
  }
  return static_cast<size_t>(at - begin);
}

}  // namespace folio
