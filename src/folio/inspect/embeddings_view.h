#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/inspect/embeddings.h"
#include "folio/inspect/token_names.h"
#include "folio/term/console.h"

namespace folio {

// What a token looks like: the colours of the projection.
enum class TokenKind { kLetter, kSpaceLetter, kDigit, kPunctuation, kOther };
TokenKind KindOf(std::string_view bytes);
// "letter", "space and letter", ...
std::string KindName(TokenKind kind);

// A token and those nearest to it.
struct TokenNeighbours {
  int32_t id = 0;
  std::vector<Neighbour> nearest = {};
};

// What is known of the embeddings of a model.
struct EmbeddingsView {
  int64_t V = 0, C = 0, P = 0;
  bool learned_positions = true;
  std::vector<double> norms = {};           // of the tokens
  std::vector<double> position_norms = {};  // of the positions
  std::optional<TokenNeighbours> token = {};
  std::vector<int64_t> drawn = {};  // tokens of the projection
  Projection projection = {};       // of these
  int64_t top = 10;                 // rows of the lists
};

// The rows' indices, the longest first or the shortest first; `count` of them.
std::vector<size_t> Extremes(const std::vector<double>& norms, int64_t count, bool longest);

std::string EmbeddingsTerminalText(const EmbeddingsView& view, const TokenNames& names,
                                   const Terminal& terminal);
std::string EmbeddingsJson(const EmbeddingsView& view, const TokenNames& names);

std::string ProjectionSvg(const EmbeddingsView& view, const TokenNames& names);
std::string NormsSvg(const EmbeddingsView& view);
std::string NeighboursSvg(const TokenNeighbours& token, const TokenNames& names);
// `similarity` is (P,P).
std::string PositionsSvg(std::vector<float> similarity, int64_t P);

}  // namespace folio
