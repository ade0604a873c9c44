#include "folio/corpus/prepare_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"

namespace folio {
namespace {

constexpr int64_t kBlockUnits = 512, kMostBlocks = 64;
constexpr int64_t kLineBytes = 4096;  // how far the end of a line is looked for, at most

struct Counted {
  PreparePiece piece;
  int64_t before = 0;  // units of the pieces before it
  int64_t units = 0;
};

// Adds up what the pieces hold.
class PlanMaker {
 public:
  PlanMaker(std::span<const PrepareSource> sources, PrepareUnit unit, CharSetBuilder* characters)
      : sources_(sources), unit_(unit), characters_(characters), units_of_(sources.size()) {}

  void Take(const PreparePiece& piece, const TextCounts& counts, PreparePlan& plan) {
    if (plan.documents == 0 && counts.first) plan.first = *counts.first;
    pieces_.push_back({piece, plan.units, counts.units});
    units_of_[piece.begin.source] += counts.units;
    plan.units += counts.units;
    plan.documents += counts.documents;
    plan.text_bytes += counts.text_bytes;
    if (characters_ == nullptr) return;
    const PrepareSource& source = sources_[piece.begin.source];
    if (piece.begin.offset == 0) characters_->BeginText(source.path());
    characters_->Add(counts.text);
    for (const std::string& text : counts.texts) characters_->Add(text);
    if (piece.end == source.bytes()) characters_->EndText();
  }

  // The split behind `units` of all. With a `reach` it may be elsewhere: at the nearer end of the
  // document that is cut, if that has no more units, or else at the end of a line.
  PrepareSplit Find(int64_t units, int64_t reach) const {
    const auto at = std::ranges::lower_bound(
        pieces_, units, {}, [](const Counted& counted) { return counted.before + counted.units; });
    const PreparePiece& piece = at->piece;
    const PrepareSource& source = sources_[piece.begin.source];
    std::string bytes;
    source.Read(piece.begin.offset, piece.end, bytes);
    PrepareSplit split{.source = piece.begin.source};
    int64_t left = units - at->before;
    ForDocuments(source, piece, bytes, [&](const PrepareDocument& document) {
      const int64_t here = CountUnits(document.text, unit_);
      if (left > 0 && left <= here) {
        // A plain file is a document of several pieces.
        int64_t before = left, all = here;
        if (!source.json_lines()) {
          before = units - UnitsBefore(split.source);
          all = units_of_[split.source];
        }
        if (all <= reach) {
          const int64_t begin = source.json_lines() ? document.offset : 0;
          const int64_t end = source.json_lines() ? document.end : source.bytes();
          split.offset = before < all - before ? begin : end;
        } else {
          SplitInside(document, left, std::min(reach / 4, kLineBytes), source, split);
        }
      }
      left -= here;
    });
    return split;
  }

 private:
  int64_t UnitsBefore(size_t source) const {
    return std::reduce(units_of_.begin(), units_of_.begin() + static_cast<int64_t>(source));
  }

  // Splits behind `units` of the document, or at the end of the line if that is not `look` bytes
  // away.
  void SplitInside(const PrepareDocument& document, int64_t units, int64_t look,
                   const PrepareSource& source, PrepareSplit& split) const {
    int64_t bytes = unit_ == PrepareUnit::kByte
                        ? units
                        : static_cast<int64_t>(FindCharacter(document.text, units));
    if (!source.json_lines()) {
      // Not in the piece alone, since the size of pieces changes nothing.
      split.offset = document.offset + bytes;
      std::string ahead;
      source.Read(split.offset, std::min(split.offset + look, source.bytes()), ahead);
      split.offset += BehindLine(ahead);
      return;
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
  }

  // 0 if it does not end there.
  static int64_t BehindLine(std::string_view text) {
    return static_cast<int64_t>(text.find('\n') + 1);
  }

  std::span<const PrepareSource> sources_;
  PrepareUnit unit_;
  CharSetBuilder* characters_;
  std::vector<int64_t> units_of_;  // each source
  std::vector<Counted> pieces_;
};

// Parts of `train` and of the other units in turns.
std::vector<PrepareSplit> Split(const PlanMaker& maker, int64_t units, int64_t train, bool spread) {
  const int64_t held_out = units - train, smaller = std::min(train, held_out);
  const int64_t blocks = spread ? std::clamp<int64_t>(smaller / kBlockUnits, 1, kMostBlocks) : 1;
  const int64_t reach = blocks > 1 ? smaller / blocks : 0;
  std::vector<PrepareSplit> splits;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t before = train * (i + 1) / blocks;
    splits.push_back(maker.Find(before + held_out * i / blocks, reach));
    if (i + 1 == blocks) break;
    splits.push_back(maker.Find(before + held_out * (i + 1) / blocks, reach));
  }
  return splits;
}

}  // namespace

PreparePlan MakePreparePlan(std::span<const PrepareSource> sources, const HeldOut& held_out,
                            PrepareUnit unit, CharSetBuilder* characters, const WindowSizes& sizes,
                            PieceRanks& ranks,
                            const std::function<void(const PreparePlace&)>& done) {
  PreparePlan plan;
  TextCounter counter(sources, unit, /*collect=*/characters != nullptr);
  PlanMaker maker(sources, unit, characters);
  PieceRanks alone(nullptr);
  const CutRule characters_only;
  PieceCutter cutter(sources, characters_only, sizes.piece_bytes, {});
  ForPieces<TextCounts>(
      cutter, sizes, characters == nullptr ? ranks : alone,
      unit == PrepareUnit::kByte ? PieceWork::kCountBytes : PieceWork::kCountCharacters,
      [&](const PreparePiece& piece, TextCounts& counts, int thread) {
        counter.Count(piece, counts, thread);
      },
      [&](const PreparePiece& piece, const TextCounts& counts) { maker.Take(piece, counts, plan); },
      done);
  const auto train_units =
      static_cast<int64_t>(static_cast<double>(plan.units) * (1 - held_out.fraction));
  if (train_units == 0) {
    throw InputError(fmt::format("{}: too short", sources.front().path()),
                     fmt::format("of {} {} none would be left to train on", plan.units,
                                 unit == PrepareUnit::kByte ? "bytes" : "characters"),
                     "use more text, or a smaller --val-fraction");
  }
  if (train_units < plan.units) {
    plan.splits = Split(maker, plan.units, train_units, held_out.spread);
  }
  return plan;
}

}  // namespace folio
