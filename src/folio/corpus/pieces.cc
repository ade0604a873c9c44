#include "folio/corpus/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/utf8.h"
#include "folio/corpus/json_documents.h"

namespace folio {
namespace {

// The longest character: what stands on both sides of a cut is whole within so many bytes.
constexpr size_t kCharBytes = 4;
constexpr int64_t kViewBytes = 1 << 14;

}  // namespace

size_t FindCharacter(std::string_view text, int64_t index) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (BeginsCharacter(text[at]) && index-- == 0) return at;
  }
  return text.size();
}

void ForDocuments(const PrepareSource& source, const PreparePiece& piece, std::string_view bytes,
                  const std::function<void(const PrepareDocument&)>& f) {
  if (!source.json_lines()) {
    f({bytes, piece.begin.offset, piece.end, piece.begin.offset == 0});
    return;
  }
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size() - 1) + 1;
    const std::string_view line = bytes.substr(at, end - at);
    const int64_t offset = piece.begin.offset + static_cast<int64_t>(at);
    if (!IsBlankLine(line)) {
      const std::string whole =
          TextOfJsonLine(line, source.field(), [&] { return source.NameLine(offset); });
      const std::string_view text =
          std::string_view(whole).substr(0, static_cast<size_t>(piece.text_end));  // -1: all
      const size_t begin = std::min(text.size(), static_cast<size_t>(piece.text_begin));
      f({text.substr(begin), offset, piece.begin.offset + static_cast<int64_t>(end), begin == 0,
         text.substr(0, begin)});
    }
    at = end;
  }
}

CutRule::CutRule(const Tokenizer& tokenizer, bool specials)
    : tokenizer_(&tokenizer), context_(2 * kCharBytes) {
  if (!specials) return;
  specials_ = tokenizer.special_tokens();
  for (const SpecialToken& special : specials_) context_ = std::max(context_, special.text.size());
}

// Returns whether any special token's text lies on both sides of `at`. Where none does, no match of
// theirs, whichever is chosen where they overlap, depends on what is behind the cut.
bool CutRule::InsideSpecial(std::string_view view, size_t at) const {
  return std::ranges::any_of(specials_, [&](const SpecialToken& special) {
    const size_t reach = special.text.size() - 1;
    const size_t begin = at - std::min(at, reach);
    return view.substr(begin, at - begin + reach).find(special.text) != std::string_view::npos;
  });
}

size_t CutRule::Find(std::string_view view, size_t at) const {
  if (tokenizer_ == nullptr) return at + FindCharacter(view.substr(at), 0);
  for (;; ++at) {
    at = tokenizer_->FindCut(view, at);
    if (at >= view.size() || !InsideSpecial(view, at)) return at;
  }
}

PieceCutter::PieceCutter(std::span<const PrepareSource> sources, const CutRule& rule,
                         int64_t piece_bytes, std::span<const PrepareSplit> splits,
                         PreparePlace begin)
    : sources_(sources), rule_(rule), piece_bytes_(piece_bytes), splits_(splits), at_(begin) {
  FOLIO_CHECK(piece_bytes > 0, "a piece holds something");
}

// Returns that split, if it cuts the document of the line that begins here; else null.
const PrepareSplit* PieceCutter::InThisLine(size_t split) const {
  if (split >= splits_.size()) return nullptr;
  const PrepareSplit& found = splits_[split];
  const bool here = found.source == at_.source && found.offset == at_.offset;
  return here && found.inside > 0 ? &found : nullptr;
}

// Counts those at or before this place, but for those inside of the line that begins here.
void PieceCutter::PassSplits() {
  for (; at_.part < splits_.size(); ++at_.part) {
    const PrepareSplit& next = splits_[at_.part];
    if (InThisLine(at_.part) != nullptr) return;
    if (std::pair(next.source, next.offset) > std::pair(at_.source, at_.offset)) return;
  }
}

void PieceCutter::MoveTo(int64_t offset) {
  at_.offset = offset;
  if (offset < sources_[at_.source].bytes()) return;
  at_.offset = 0;
  ++at_.source;
}

// Returns the part of a document that lies between two splits; null where it goes to the document's
// beginning or end.
PreparePiece PieceCutter::PartOfLine(const PrepareSplit* begin, const PrepareSplit* end) {
  PreparePiece piece{.begin = at_, .end = (begin != nullptr ? begin : end)->line_end};
  if (begin != nullptr) piece.text_begin = begin->inside;
  if (end != nullptr) {
    piece.text_end = end->inside;
    ++at_.part;
  } else {
    MoveTo(piece.end);
  }
  return piece;
}

std::optional<PreparePiece> PieceCutter::Next() {
  PassSplits();
  const PrepareSplit* before = at_.part > 0 ? InThisLine(at_.part - 1) : nullptr;
  const PrepareSplit* ahead = InThisLine(at_.part);
  if (before != nullptr || ahead != nullptr) return PartOfLine(before, ahead);
  if (at_.source == sources_.size()) return std::nullopt;
  const PrepareSource& source = sources_[at_.source];
  const bool split_ahead = at_.part < splits_.size() && splits_[at_.part].source == at_.source;
  PreparePiece piece{.begin = at_};
  piece.end = FindEnd(source, split_ahead ? splits_[at_.part].offset : source.bytes());
  MoveTo(piece.end);
  return piece;
}

int64_t PieceCutter::FindEnd(const PrepareSource& source, int64_t limit) {
  const int64_t at_least = at_.offset + piece_bytes_;
  if (at_least >= limit) return limit;
  return source.json_lines() ? FindLineEnd(source, at_least, limit)
                             : FindCut(source, at_least, limit);
}

// The end of the line that byte `look` - 1 is in.
int64_t PieceCutter::FindLineEnd(const PrepareSource& source, int64_t look, int64_t limit) {
  for (int64_t begin = look - 1; begin < limit; begin += kViewBytes) {
    source.Read(begin, std::min(limit, begin + kViewBytes), view_);
    const size_t line = view_.find('\n');
    if (line != std::string::npos) return begin + static_cast<int64_t>(line) + 1;
  }
  return limit;
}

// The first cut at `look` or behind it. One view after the other, which overlap by the context.
int64_t PieceCutter::FindCut(const PrepareSource& source, int64_t look, int64_t limit) {
  const int64_t context = static_cast<int64_t>(rule_.context());
  while (look < limit) {
    const int64_t begin = std::max(at_.offset, look - context);
    const int64_t end = std::min(limit, look + kViewBytes + context);
    source.Read(begin, end, view_);
    const int64_t found =
        begin + static_cast<int64_t>(rule_.Find(view_, static_cast<size_t>(look - begin)));
    // Near the end of the view too little is seen of what follows.
    const int64_t seen = end == limit ? limit : end - context;
    if (found < seen) return found;
    look = seen;
  }
  return limit;
}

}  // namespace folio
