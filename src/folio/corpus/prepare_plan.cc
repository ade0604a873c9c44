#include "folio/corpus/prepare_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

struct Counted {
  PreparePiece piece;
  int64_t units = 0;
};

// Adds up what the pieces hold.
class PlanMaker {
 public:
  PlanMaker(std::span<const PrepareSource> sources, PrepareUnit unit, CharSetBuilder* characters)
      : sources_(sources), unit_(unit), characters_(characters) {}

  void Take(const PreparePiece& piece, const TextCounts& counts, PreparePlan& plan) {
    if (plan.documents == 0 && counts.first) plan.first = *counts.first;
    plan.units += counts.units;
    plan.documents += counts.documents;
    plan.text_bytes += counts.text_bytes;
    pieces_.push_back({piece, counts.units});
    if (characters_ == nullptr) return;
    const PrepareSource& source = sources_[piece.begin.source];
    if (piece.begin.offset == 0) characters_->BeginText(source.path());
    characters_->Add(counts.text);
    for (const std::string& text : counts.texts) characters_->Add(text);
    if (piece.end == source.bytes()) characters_->EndText();
  }

  // The split behind `units` of all.
  PrepareSplit Find(int64_t units) const {
    auto at = pieces_.begin();
    for (; at->units < units; ++at) units -= at->units;
    const PreparePiece& piece = at->piece;
    const PrepareSource& source = sources_[piece.begin.source];
    std::string bytes;
    source.Read(piece.begin.offset, piece.end, bytes);
    PrepareSplit split{.source = piece.begin.source};
    ForDocuments(source, piece, bytes, [&](const PrepareDocument& document) {
      const int64_t here = CountUnits(document.text, unit_);
      if (units > 0 && units <= here) SplitInside(document, units, here, source, split);
      units -= here;
    });
    return split;
  }

 private:
  // Behind `units` of the document's `here`.
  void SplitInside(const PrepareDocument& document, int64_t units, int64_t here,
                   const PrepareSource& source, PrepareSplit& split) const {
    const int64_t bytes = unit_ == PrepareUnit::kByte
                              ? units
                              : static_cast<int64_t>(FindCharacter(document.text, units));
    if (!source.json_lines()) {
      split.offset = document.offset + bytes;
    } else if (units == here) {
      split.offset = document.end;
    } else {
      split.offset = document.offset;
      split.line_end = document.end;
      split.inside = bytes;
    }
  }

  std::span<const PrepareSource> sources_;
  PrepareUnit unit_;
  CharSetBuilder* characters_;
  std::vector<Counted> pieces_;
};

}  // namespace

PreparePlan MakePreparePlan(std::span<const PrepareSource> sources, double val_fraction,
                            PrepareUnit unit, CharSetBuilder* characters, const WindowSizes& sizes,
                            PieceRanks& ranks,
                            const std::function<void(const PreparePlace&)>& done) {
  PreparePlan plan;
  plan.split.source = sources.size();
  TextCounter counter(sources, unit, /*collect=*/characters != nullptr);
  PlanMaker maker(sources, unit, characters);
  PieceRanks alone(nullptr);
  const CutRule characters_only;
  PieceCutter cutter(sources, characters_only, sizes.piece_bytes, plan.split);
  ForPieces<TextCounts>(
      cutter, sizes, characters == nullptr ? ranks : alone,
      unit == PrepareUnit::kByte ? PieceWork::kCountBytes : PieceWork::kCountCharacters,
      [&](const PreparePiece& piece, TextCounts& counts, int thread) {
        counter.Count(piece, counts, thread);
      },
      [&](const PreparePiece& piece, const TextCounts& counts) { maker.Take(piece, counts, plan); },
      done);
  const auto train_units =
      static_cast<int64_t>(static_cast<double>(plan.units) * (1 - val_fraction));
  if (train_units == 0) {
    throw InputError(fmt::format("{}: too short", sources.front().path()),
                     fmt::format("of {} {} none would be left to train on", plan.units,
                                 unit == PrepareUnit::kByte ? "bytes" : "characters"),
                     "use more text, or a smaller --val-fraction");
  }
  if (train_units < plan.units) plan.split = maker.Find(train_units);
  return plan;
}

}  // namespace folio
