#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "folio/backend/reference/attention.h"
#include "folio/backend/reference/rows.h"

namespace folio::reference {

// Pages (M,G,2,R,D), as in ops.h.
struct PageShape {
  int64_t G = 1, R = 1, D = 1;

  // Place is the index in the pages of the keys (part 0) or values (part 1) of head g at a position
  // of a sequence.
  int64_t Place(const int32_t* table, int64_t position, int64_t g, int64_t part) const {
    return (((table[position / R] * G + g) * 2 + part) * R + position % R) * D;
  }
};

// k and v (1,N,G*D), tables (N,W), positions (N).
template <class Number>
void CacheWrite(const PageShape& shape, Rows<const Number> k, Rows<const Number> v, int64_t N,
                const int32_t* tables, int64_t W, const int32_t* positions, Number* pages) {
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t g = 0; g < shape.G; ++g) {
      const auto place = [&](int64_t part) {
        return pages + shape.Place(tables + n * W, positions[n], g, part);
      };
      std::copy_n(k.row(0, n) + g * shape.D, shape.D, place(0));
      std::copy_n(v.row(0, n) + g * shape.D, shape.D, place(1));
    }
  }
}

// k and v (1,S,G*D), table (W).
template <class Number>
void CacheRead(const PageShape& shape, const Number* pages, const int32_t* table, int64_t S,
               Rows<Number> k, Rows<Number> v) {
  for (int64_t s = 0; s < S; ++s) {
    for (int64_t g = 0; g < shape.G; ++g) {
      std::copy_n(pages + shape.Place(table, s, g, 0), shape.D, k.row(0, s) + g * shape.D);
      std::copy_n(pages + shape.Place(table, s, g, 1), shape.D, v.row(0, s) + g * shape.D);
    }
  }
}

// q and out (1,N,H*D), tables (N,W), positions (N): each row as a sequence of its own.
template <class Number>
void CacheAttention(const PageShape& shape, Rows<const Number> q, const Number* pages, int64_t N,
                    int64_t H, const int32_t* tables, int64_t W, const int32_t* positions,
                    double scale, Rows<Number> out) {
  const int64_t C = shape.G * shape.D;
  std::vector<Number> lse(static_cast<size_t>(H));
  for (int64_t n = 0; n < N; ++n) {
    const int64_t S = positions[n] + 1;
    std::vector<Number> k(static_cast<size_t>(S * C)), v(k.size());
    CacheRead(shape, pages, tables + n * W, S, Rows<Number>{k.data(), 0, C},
              Rows<Number>{v.data(), 0, C});
    AttentionShape row{{.B = 1, .T = 1, .S = S, .H = H, .G = shape.G, .D = shape.D}};
    row.scale = scale;
    AttentionForward(row, Rows<const Number>{q.row(0, n)}, Rows<const Number>{k.data(), 0, C},
                     Rows<const Number>{v.data(), 0, C}, Rows<Number>{out.row(0, n)}, lse.data(),
                     static_cast<Number*>(nullptr));
  }
}

}  // namespace folio::reference
