#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/params.h"

namespace folio {

// The position embeddings that a model adds to its tokens, learned or sinusoidal: (P,C).
std::vector<float> PositionTable(const GptWeights& weights);

struct Neighbour {
  int64_t row = 0;
  double cosine = 0;
};

// The k rows of table (V,C) float32 nearest to `vector` (C) by cosine, nearest first (of equals the
// lower row), without row `except` (-1 for none); fewer if there are fewer. A row of zeros, or
// of what is no number, has cosine 0.
std::vector<Neighbour> NearestRows(const Tensor& table, std::span<const float> vector, int64_t k,
                                   int64_t except = -1);

// Cosine of each pair of the first `rows` rows: (rows, rows).
std::vector<float> CosineSimilarity(const Tensor& table, int64_t rows);

// Principal components of the rows of table (V,C): H. Hotelling, 1933. Each component's sign is
// such that its largest entry is positive.
struct Projection {
  std::vector<double> x, y;  // of each row of `which`, along the first two components
  double explained_x = 0, explained_y = 0;  // shares of the variance
};
// The components are those of all rows of the table; `which` says whose coordinates to give. Of
// one column, or of rows that are all the same, what is missing is 0. `backend` multiplies.
Projection ProjectRows(Backend& backend, const Tensor& table, std::span<const int64_t> which);

}  // namespace folio
