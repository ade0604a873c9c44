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

// What one piece holds.
struct Counts {
  int64_t units = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;
  std::optional<PreparePlace> first;  // document
  std::string text;                   // of plain files, where characters are collected
  std::vector<std::string> texts;     // of .jsonl
};

struct Counted {
  PreparePiece piece;
  int64_t units = 0;
};

int64_t CountUnits(std::string_view text, PrepareUnit unit) {
  return unit == PrepareUnit::kByte ? static_cast<int64_t>(text.size()) : CountCharacters(text);
}

class Counter {
 public:
  Counter(std::span<const PrepareSource> sources, PrepareUnit unit, CharSetBuilder* characters)
      : sources_(sources),
        unit_(unit),
        characters_(characters),
        texts_(static_cast<size_t>(Threads())) {}

  void Count(const PreparePiece& piece, Counts& counts, int thread) {
    const PrepareSource& source = sources_[piece.begin.source];
    counts = {};
    std::string& bytes = texts_[static_cast<size_t>(thread)];
    if (unit_ == PrepareUnit::kByte && !source.json_lines()) {
      AddPlain(piece, piece.end - piece.begin.offset, counts);
      return;
    }
    source.Read(piece.begin.offset, piece.end, bytes);
    if (!source.json_lines()) {
      AddPlain(piece, CountUnits(bytes, unit_), counts);
      if (characters_ != nullptr) counts.text = bytes;
      return;
    }
    ForDocuments(source, piece, bytes, [&](const PrepareDocument& document) {
      if (!counts.first) counts.first = {piece.begin.source, document.offset};
      ++counts.documents;
      counts.units += CountUnits(document.text, unit_);
      counts.text_bytes += static_cast<int64_t>(document.text.size());
      if (characters_ != nullptr) counts.texts.emplace_back(document.text);
    });
  }

  void Take(const PreparePiece& piece, const Counts& counts, PreparePlan& plan) {
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
  static void AddPlain(const PreparePiece& piece, int64_t units, Counts& counts) {
    counts.units = units;
    counts.text_bytes = piece.end - piece.begin.offset;
    if (piece.begin.offset > 0) return;
    counts.documents = 1;
    counts.first = piece.begin;
  }

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
  std::vector<std::string> texts_;  // of each thread
  std::vector<Counted> pieces_;
};

}  // namespace

PreparePlan MakePreparePlan(std::span<const PrepareSource> sources, double val_fraction,
                            PrepareUnit unit, CharSetBuilder* characters, const WindowSizes& sizes,
                            const std::function<void(const PreparePlace&)>& done) {
  PreparePlan plan;
  plan.split.source = sources.size();
  Counter counter(sources, unit, characters);
  const CutRule characters_only;
  PieceCutter cutter(sources, characters_only, sizes.piece_bytes, plan.split);
  ForPieces<Counts>(
      cutter, sizes,
      [&](const PreparePiece& piece, Counts& counts, int thread) {
        counter.Count(piece, counts, thread);
      },
      [&](const PreparePiece& piece, const Counts& counts) { counter.Take(piece, counts, plan); },
      done);
  const auto train_units =
      static_cast<int64_t>(static_cast<double>(plan.units) * (1 - val_fraction));
  if (train_units == 0) {
    throw InputError(fmt::format("{}: too short", sources.front().path()),
                     fmt::format("of {} {} none would be left to train on", plan.units,
                                 unit == PrepareUnit::kByte ? "bytes" : "characters"),
                     "use more text, or a smaller --val-fraction");
  }
  if (train_units < plan.units) plan.split = counter.Find(train_units);
  return plan;
}

}  // namespace folio
