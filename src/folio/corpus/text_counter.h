#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/corpus/pieces.h"

namespace folio {

// The units that the split is made by.
enum class PrepareUnit { kCharacter, kByte };

int64_t CountUnits(std::string_view text, PrepareUnit unit);

// The counts of one piece.
struct TextCounts {
  int64_t units = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;
  std::optional<PreparePlace> first = {};  // document
  // Where texts are collected.
  std::string text = {};                // of plain files
  std::vector<std::string> texts = {};  // of .jsonl
};

// Counts pieces; several threads, each with its number, may use one.
class TextCounter {
 public:
  // The sources must outlive it.
  TextCounter(std::span<const PrepareSource> sources, PrepareUnit unit, bool collect);

  // Replaces what is in `counts`. Throws a kInput Error as ForDocuments.
  void Count(const PreparePiece& piece, TextCounts& counts, int thread);

 private:
  std::span<const PrepareSource> sources_;
  PrepareUnit unit_;
  bool collect_;
  std::vector<std::string> bytes_;  // of each thread
};

}  // namespace folio
