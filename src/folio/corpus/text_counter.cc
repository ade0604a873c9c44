#include "folio/corpus/text_counter.h"

#include <cstddef>

#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

void CountPlain(const PreparePiece& piece, int64_t units, TextCounts& counts) {
  counts.units = units;
  counts.text_bytes = piece.end - piece.begin.offset;
  if (piece.begin.offset > 0) return;
  counts.documents = 1;
  counts.first = piece.begin;
}

}  // namespace

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
    if (collect_) counts.text = bytes;
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

}  // namespace folio
