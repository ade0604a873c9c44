#include "folio/corpus/prepare_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>

namespace folio {
namespace {

constexpr int64_t kBlockUnits = 512, kMostBlocks = 64;
constexpr int64_t kLineBytes = 4096;  // the end of a line is searched for no further than this

// The length of the first line with its line break; 0 if it has none.
int64_t BehindLine(std::string_view text) {
  return static_cast<int64_t>(text.find('\n') + 1);
}

// Finds ascending places in a text.
class UnitCursor {
 public:
  UnitCursor(std::string_view text, PrepareUnit unit) : text_(text), unit_(unit) {}

  // Returns the number of bytes of the first `units` units. REQUIRES: not fewer than before.
  int64_t BytesBefore(int64_t units) {
    if (unit_ == PrepareUnit::kByte) return units;
    bytes_ += FindCharacter(text_.substr(bytes_), units - units_);
    units_ = units;
    return static_cast<int64_t>(bytes_);
  }

 private:
  std::string_view text_;
  PrepareUnit unit_;
  int64_t units_ = 0;
  size_t bytes_ = 0;  // of these units
};

}  // namespace

void PlanMaker::Take(const PreparePiece& piece, const TextCounts& counts, PreparePlan& plan) {
  if (plan.documents == 0 && counts.first) plan.first = *counts.first;
  pieces_.push_back({piece, plan.units, counts.units});
  units_of_[piece.begin.source] += counts.units;
  plan.units += counts.units;
  plan.documents += counts.documents;
  plan.text_bytes += counts.text_bytes;
  if (characters_ == nullptr) return;
  const PrepareSource& source = sources_[piece.begin.source];
  if (piece.begin.offset == 0) characters_->BeginText(source.path());
  for (const std::string& text : counts.texts) characters_->Add(text);
  if (piece.end == source.bytes()) characters_->EndText();
}

std::vector<PrepareSplit> PlanMaker::FindAll(int64_t units, int64_t train, bool spread) const {
  const int64_t held_out = units - train, smaller = std::min(train, held_out);
  const int64_t blocks = spread ? std::clamp<int64_t>(smaller / kBlockUnits, 1, kMostBlocks) : 1;
  const int64_t reach = blocks > 1 ? smaller / blocks : 0;
  std::vector<int64_t> places;  // in units, in order
  for (int64_t i = 0; i < 2 * blocks - 1; ++i) {
    places.push_back(train * (i / 2 + 1) / blocks + held_out * ((i + 1) / 2) / blocks);
  }
  std::vector<PrepareSplit> splits;
  while (splits.size() < places.size()) {
    const std::span<const int64_t> rest = std::span(places).subspan(splits.size());
    const auto in = std::ranges::lower_bound(pieces_, rest[0], {}, [](const Counted& counted) {
      return counted.before + counted.units;
    });
    const auto end = std::ranges::upper_bound(rest, in->before + in->units);
    const auto count = static_cast<size_t>(end - rest.begin());
    const size_t before = splits.size();
    FindIn(*in, rest.first(count), reach, splits);
    if (splits.size() != before + count) {
      throw ChangedWhileRead(sources_[in->piece.begin.source].path());
    }
  }
  return splits;
}

// Appends the splits at `places`, in units from the beginning of all text, which are in this piece.
void PlanMaker::FindIn(const Counted& counted, std::span<const int64_t> places, int64_t reach,
                       std::vector<PrepareSplit>& splits) const {
  const PreparePiece& piece = counted.piece;
  const PrepareSource& source = sources_[piece.begin.source];
  std::string bytes;
  source.Read(piece.begin.offset, piece.end, bytes);
  int64_t before = counted.before;  // the document
  ForDocuments(source, piece, bytes, [&](const PrepareDocument& document) {
    const int64_t here = CountUnits(document.text, unit_);
    // A plain file is a document of several pieces.
    const int64_t begin = source.json_lines() ? before : UnitsBefore(piece.begin.source);
    const int64_t all = source.json_lines() ? here : units_of_[piece.begin.source];
    UnitCursor cursor(document.text, unit_);
    for (; !places.empty() && places[0] <= before + here; places = places.subspan(1)) {
      if (all > reach) {
        splits.push_back(SplitInside(document, cursor.BytesBefore(places[0] - before),
                                     std::min(reach / 4, kLineBytes), source));
        splits.back().source = piece.begin.source;
        continue;
      }
      const int64_t from = source.json_lines() ? document.offset : 0;
      const int64_t to = source.json_lines() ? document.end : source.bytes();
      const bool nearer = places[0] - begin < all - (places[0] - begin);
      splits.push_back({.source = piece.begin.source, .offset = nearer ? from : to});
    }
    before += here;
  });
}

int64_t PlanMaker::UnitsBefore(size_t source) const {
  return std::reduce(units_of_.begin(), units_of_.begin() + static_cast<int64_t>(source));
}

// Splits behind `bytes` bytes of the document, or at the end of the line if it is less than `look`
// bytes away.
PrepareSplit PlanMaker::SplitInside(const PrepareDocument& document, int64_t bytes, int64_t look,
                                    const PrepareSource& source) const {
  PrepareSplit split;
  if (!source.json_lines()) {
    // Looks beyond the end of the piece, so that the size of pieces does not affect the result.
    split.offset = document.offset + bytes;
    std::string ahead;
    source.Read(split.offset, std::min(split.offset + look, source.bytes()), ahead);
    split.offset += BehindLine(ahead);
    return split;
  }
  const std::string_view ahead = document.text.substr(static_cast<size_t>(bytes));
  bytes += BehindLine(ahead.substr(0, static_cast<size_t>(look)));
  if (bytes == std::ssize(document.text)) {
    split.offset = document.end;
  } else {
    split.offset = document.offset;
    split.line_end = document.end;
    split.inside = bytes;
  }
  return split;
}

}  // namespace folio
