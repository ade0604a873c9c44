#pragma once

// The files that list cases share these functions and types.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"
#include "folio/backend/test_op_cases.h"

namespace folio::op_cases {

struct Rows {
  int64_t N, C;
};

// Appends cases of one operation.
class Cases {
 public:
  explicit Cases(std::vector<OpCase>& cases) : cases_(cases) {}

  // Add adds a case, with bfloat16 too if the operation has operands of low precision.
  template <class Make>
  void Add(std::string name, Make make) {
    Append(std::move(name), make, true, HasHalves(make));
  }
  // AddPlain adds a case that is not allowed with bfloat16.
  template <class Make>
  void AddPlain(std::string name, Make make) {
    Append(std::move(name), make, true, false);
  }
  // AddMixed adds a case in which some operands of low precision are bfloat16 and others are not.
  template <class Make>
  void AddMixed(std::string name, Make make) {
    Append(std::move(name), make, false, true);
  }

 private:
  template <class Make>
  using MadeBy = std::invoke_result_t<Make, OpMemory&>;

  // HasHalves says whether an operation has operands of low precision: their dtype is the memory's.
  template <class Make>
  bool HasHalves(const Make& make) {
    const auto found = halves_.find(MadeBy<Make>::kName);
    if (found != halves_.end()) return found->second;
    const auto dtypes = [&](Dtype half) {
      OpMemory memory(Dtype::kF32, half, /*misaligned=*/false);
      std::vector<Dtype> of_operands;
      for (const Operand& x : Operands(make(memory))) of_operands.push_back(x.dtype());
      return of_operands;
    };
    return halves_[MadeBy<Make>::kName] = dtypes(Dtype::kF32) != dtypes(Dtype::kBF16);
  }

  template <class Make>
  void Append(std::string name, Make make, bool plain, bool bf16) {
    cases_.push_back({std::string(MadeBy<Make>::kName), std::move(name),
                      [make](OpMemory& memory) -> AnyOp { return make(memory); }, plain, bf16});
  }

  std::vector<OpCase>& cases_;
  std::map<std::string_view, bool> halves_ = {};  // by operation
};

// RunReference(forward) makes what the backward reads of the forward.
template <class Op>
void RunReference(const Op& op) {
  MakeReferenceBackend()->Run(op);
}

void AddLinear(Cases& cases);
void AddAttention(Cases& cases);

}  // namespace folio::op_cases
