#include "folio/infer/pooling.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

using Doubles = std::vector<double>;

TEST(PooledRows, DoNotDependOnHowRowsCome) {
  std::vector<float> memory = {1, 10, 2, 20, 6, 60, 7, 30};
  const Tensor rows(memory.data(), {4, 2});
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{4}, {1, 4}, {2, 3, 4}}) {
    PooledRows mean(2, /*mean=*/true), last(2, /*mean=*/false);
    int64_t begin = 0;
    for (const int64_t end : cuts) {
      for (PooledRows* pooled : {&mean, &last}) pooled->Add(rows.Slice(begin, end));
      begin = end;
    }
    EXPECT_EQ(mean.Value(), (Doubles{4, 30}));
    EXPECT_EQ(last.Value(), (Doubles{7, 30}));
  }
}

}  // namespace
}  // namespace folio
