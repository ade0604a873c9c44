#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/infer/opened_model.h"
#include "folio/model/layers/rotary.h"
#include "folio/model/params.h"

namespace folio {

// The largest eigenvalues of a symmetric matrix, largest first, with orthonormal eigenvectors.
struct Eigenpairs {
  std::vector<double> values;                // k
  std::vector<std::vector<double>> vectors;  // k, of n each
};

// Finds the pairs of `matrix` (n,n), symmetric, without negative eigenvalues, by iterating a space
// of a few vectors until the matrix maps it onto itself (H. Rutishauser, 1969). Equal eigenvalues
// are found with their multiplicity. The residual of each is at most `exact` times the largest
// eigenvalue. REQUIRES: 0 <= k <= min(n, 4).
Eigenpairs LargestEigenpairs(std::span<const double> matrix, int64_t n, int64_t k,
                             double exact = 1e-11);

// True if a model adds position embeddings to its tokens; rotary positions are not added.
bool AddsPositions(const GptConfig& config);
// The position embeddings that a model adds to its tokens, learned or sinusoidal: (P,C). REQUIRES:
// AddsPositions.
std::vector<float> PositionTable(const GptWeights& weights);

// The rotations of rotary positions (n,r): the cosines of the angles at each of the `positions`,
// then the sines.
std::vector<float> RotaryHands(const RotaryFrequencies& frequencies,
                               std::span<const int64_t> positions);

struct Neighbour {
  int64_t row = 0;
  double cosine = 0;
};

// The k rows of table (V,C) float32 nearest to `vector` (C) by cosine, nearest first (among equals
// the lower row), without row `except` (-1 for none); fewer if there are fewer. A row of zeros, or
// with NaN, has cosine 0.
std::vector<Neighbour> NearestRows(const Tensor& table, std::span<const float> vector, int64_t k,
                                   int64_t except = -1);

// Cosine of each pair of the first `rows` rows: (rows, rows).
std::vector<float> CosineSimilarity(const Tensor& table, int64_t rows);

// The rows of a table (V,C) along their first principal components: H. Hotelling, 1933. The sign of
// each makes its largest entry positive.
struct Projection {
  std::vector<std::vector<double>> along = {};  // for each component, the coordinates of all rows
  std::vector<double> explained = {};           // shares of the variance
};
// Finds `count` components, 0 to 4, with LargestEigenpairs' precision `exact`. Components beyond
// the number of columns, or of equal rows, are 0. `backend` multiplies.
Projection ProjectRows(Backend& backend, const Tensor& table, size_t count, double exact = 1e-11);

// The class of a token's text, shown as a colour of the projection.
enum class TokenKind { kLetter, kSpaceLetter, kDigit, kPunctuation, kOther };
TokenKind KindOf(std::string_view bytes);

// A token and its nearest tokens.
struct TokenNeighbours {
  int32_t id = 0;
  std::vector<Neighbour> nearest = {};
};

// The norms, neighbours and projections of a model's embeddings.
struct EmbeddingsView {
  std::vector<double> norms = {};           // of tokens
  std::vector<double> position_norms = {};  // of added positions
  std::optional<TokenNeighbours> token = {};
  Projection projection = {};       // of tokens, along two components
  std::vector<int32_t> drawn = {};  // tokens with names in the projection
  int64_t top = 10;                 // rows of the lists
};

// Computes these for the model, with lists of `top` rows, the neighbours of `token` if given, and
// `points` tokens to be shown with their names, evenly over the ids. `before` is called before the
// principal components, the longest part.
EmbeddingsView InspectEmbeddings(const OpenedModel& model, std::optional<int32_t> token,
                                 int64_t top, int64_t points, const std::function<void()>& before);

}  // namespace folio
