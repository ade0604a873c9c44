#include "folio/corpus/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/corpus/json_documents.h"
#include "folio/io/json.h"

namespace folio {
namespace {

// The longest character: what stands on both sides of a cut is whole within so many bytes.
constexpr size_t kCharBytes = 4;
constexpr int64_t kViewBytes = 1 << 14;

void CountPlain(const PreparePiece& piece, int64_t units, TextCounts& counts) {
  counts.units = units;
  counts.text_bytes = piece.end - piece.begin.offset;
  if (piece.begin.offset > 0) return;
  counts.documents = 1;
  counts.first = piece.begin;
}

// A buffer that a long piece has made longer than this is given back.
constexpr size_t kKeptBytes = size_t{1} << 20;

template <class Container>
void ClearAndShrink(Container& container) {
  container.clear();
  if (container.capacity() * sizeof(container[0]) > 4 * kKeptBytes) container.shrink_to_fit();
}

// Names the document for messages, and where its text begins there.
struct Whereabouts {
  std::string where;
  TextPosition position;
};

Whereabouts Locate(const PrepareSource& source, const PrepareDocument& document) {
  if (!source.json_lines()) return {source.path(), source.PositionOf(document.offset)};
  Whereabouts inside{
      fmt::format("{}: {}", source.NameLine(document.offset), Json(source.field()).dump()), {}};
  inside.position.Advance(document.before);
  return inside;
}

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

int64_t CountUnits(std::string_view text, PrepareUnit unit) {
  return unit == PrepareUnit::kByte ? static_cast<int64_t>(text.size()) : CountCharacters(text);
}

TextCounter::TextCounter(std::span<const PrepareSource> sources, PrepareUnit unit, bool collect)
    : sources_(sources), unit_(unit), collect_(collect), bytes_(static_cast<size_t>(Threads())) {}

void TextCounter::Count(const PreparePiece& piece, TextCounts& counts, int thread) {
  const PrepareSource& source = sources_[piece.begin.source];
  counts = {};
  std::string& bytes = bytes_[static_cast<size_t>(thread)];
  if (unit_ == PrepareUnit::kByte && !source.json_lines()) {
    return CountPlain(piece, piece.end - piece.begin.offset, counts);
  }
  source.Read(piece.begin.offset, piece.end, bytes);
  if (!source.json_lines()) {
    CountPlain(piece, CountUnits(bytes, unit_), counts);
    if (collect_) counts.texts = {bytes};
    return;
  }
  ForDocuments(source, piece, bytes, [&](const PrepareDocument& document) {
    if (!counts.first) counts.first = {piece.begin.source, document.offset};
    ++counts.documents;
    counts.units += CountUnits(document.text, unit_);
    counts.text_bytes += static_cast<int64_t>(document.text.size());
    if (collect_) counts.texts.emplace_back(document.text);
  });
}

PieceEncoder::PieceEncoder(const Tokenizer& tokenizer, std::span<const PrepareSource> sources,
                           const PreparePlace& first, const SpecialRule& rule, TokenWidth width)
    : tokenizer_(tokenizer),
      sources_(sources),
      first_(first),
      specials_(tokenizer.special_tokens(), rule),
      width_(width),
      scratch_(static_cast<size_t>(Threads())) {}

void PieceEncoder::Encode(const PreparePiece& piece, std::vector<std::byte>& out, int thread) {
  const PrepareSource& source = sources_[piece.begin.source];
  Scratch& scratch = scratch_[static_cast<size_t>(thread)];
  ClearAndShrink(scratch.bytes);
  ClearAndShrink(scratch.ids);
  ClearAndShrink(out);
  source.Read(piece.begin.offset, piece.end, scratch.bytes);
  const std::optional<int32_t> end_of_text = tokenizer_.end_of_text();
  ForDocuments(source, piece, scratch.bytes, [&](const PrepareDocument& document) {
    const bool is_first = piece.begin.source == first_.source && document.offset == first_.offset;
    if (document.begins && !is_first && end_of_text) scratch.ids.push_back(*end_of_text);
    EncodeText(source, document, scratch.ids);
  });
  AppendTokenBytes(scratch.ids, width_, out);
}

void PieceEncoder::EncodeText(const PrepareSource& source, const PrepareDocument& document,
                              std::vector<int32_t>& ids) const {
  const std::string_view text = document.text;
  const SpecialFinder::Match refused = specials_.NextDisallowed(text, 0);
  if (refused.token != nullptr) {
    const Whereabouts at = Locate(source, document);
    throw SpecialNotAllowed(*refused.token, text, refused.begin, at.position, at.where);
  }
  size_t at = 0;
  for (SpecialFinder::Match match = specials_.Next(text, at); match.token != nullptr;
       match = specials_.Next(text, at)) {
    EncodeOrdinary(source, document, at, match.begin, ids);
    ids.push_back(match.token->id);
    at = match.end();
  }
  EncodeOrdinary(source, document, at, text.size(), ids);
}

void PieceEncoder::EncodeOrdinary(const PrepareSource& source, const PrepareDocument& document,
                                  size_t begin, size_t end, std::vector<int32_t>& ids) const {
  const std::string_view text = document.text.substr(begin, end - begin);
  const size_t done = tokenizer_.EncodePrefix(text, ids);
  if (done == text.size()) return;
  const Whereabouts at = Locate(source, document);
  throw CannotEncode(tokenizer_, document.text, begin + done, at.position, at.where);
}

}  // namespace folio
