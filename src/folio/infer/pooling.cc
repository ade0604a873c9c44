#include "folio/infer/pooling.h"

#include <cstddef>

namespace folio {

void PooledRows::Add(const Tensor& rows) {
  const int64_t n = rows.dim(0), C = rows.dim(1), first = mean_ ? 0 : n - 1;
  if (!mean_) {
    rows_ = 0;
    sums_.assign(sums_.size(), 0);
  }
  rows_ += n - first;
  for (int64_t row = first; row < n; ++row) {
    const float* from = rows.host<float>() + row * C;
    for (size_t c = 0; c < sums_.size(); ++c) sums_[c] += static_cast<double>(from[c]);
  }
}

std::vector<double> PooledRows::Value() const {
  std::vector<double> value = sums_;
  for (double& v : value) v /= static_cast<double>(rows_);
  return value;
}

}  // namespace folio
