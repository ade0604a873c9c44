#include "folio/corpus/piece_encoder.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/io/json.h"

namespace folio {
namespace {

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
