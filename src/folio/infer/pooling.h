#pragma once

#include <cstdint>
#include <vector>

#include "folio/tensor/tensor.h"

namespace folio {

// Makes one vector (C) of the rows (n,C) of a text's final norm, as TextRequest::on_norm gets them:
// their mean, or the last of them.
class PooledRows {
 public:
  PooledRows(int64_t C, bool mean) : mean_(mean), sums_(static_cast<size_t>(C)) {}

  // Adds the next rows (n,C), float32.
  void Add(const Tensor& rows);
  // REQUIRES: at least one row was added.
  std::vector<double> Value() const;

 private:
  bool mean_;
  int64_t rows_ = 0;  // that count
  std::vector<double> sums_;
};

}  // namespace folio
