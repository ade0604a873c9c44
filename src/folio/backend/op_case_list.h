#pragma once

// What the files that list cases share.

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/op_cases.h"

namespace folio::op_cases {

struct Rows {
  int64_t N, C;
};

// Appends cases of one operation.
class Cases {
 public:
  explicit Cases(std::vector<OpCase>& cases) : cases_(cases) {}

  template <class Make>
  void Add(std::string name, Make make) {
    using Op = std::invoke_result_t<Make, OpMemory&>;
    cases_.push_back({std::string(Op::kName), std::move(name),
                      [make](OpMemory& memory) -> AnyOp { return make(memory); }});
  }

 private:
  std::vector<OpCase>& cases_;
};

// What the backward reads of the forward.
template <class Op>
void RunReference(const Op& op) {
  MakeReferenceBackend()->Run(op);
}

void AddAttention(Cases cases);
void AddAttentionSteps(Cases cases);

}  // namespace folio::op_cases
