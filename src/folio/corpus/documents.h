#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "folio/corpus/pieces.h"

namespace folio {

// A document, or a part of one.
struct PrepareDocument {
  std::string_view text;
  int64_t offset = 0;   // where its bytes, or its line, begin in the source
  int64_t end = 0;      // where they end
  bool begins = false;  // the text is not the rest of a document that began in an earlier piece
  std::string_view before = {};  // what an earlier piece has of the line's document
};

// Calls f with the documents of one piece, whose bytes are `bytes`; blank lines are none. Where the
// split cuts a document, that is the part that the piece has. Throws a kInput Error with the line
// if one is no JSON object with a "text".
void ForDocuments(const PrepareSource& source, const PreparePiece& piece, std::string_view bytes,
                  const std::function<void(const PrepareDocument&)>& f);

// Where character `index` begins, counted as CountCharacters does; text.size() if there are no more
// than `index`.
size_t FindCharacter(std::string_view text, int64_t index);

}  // namespace folio
