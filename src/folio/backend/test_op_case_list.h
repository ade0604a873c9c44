#pragma once

// The files that list cases share these functions and types.

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/test_op_cases.h"

namespace folio::op_cases {

struct Rows {
  int64_t N, C;
};

template <class Op, class... Ops>
inline constexpr bool kIsOneOf = (std::is_same_v<Op, Ops> || ...);
// kHasHalves says whether an operation has operands of low precision.
template <class Op>
inline constexpr bool kHasHalves =
    kIsOneOf<Op, LayerNormForward, LayerNormBackward, LinearForward, LinearBackward,
             ActivationForward, ActivationBackward, AttentionForward, AttentionBackward, CacheWrite,
             CacheRead, CacheAttention, ResidualForward, ResidualBackward, CrossEntropyBackward,
             Scale>;

// Appends cases of one operation.
class Cases {
 public:
  explicit Cases(std::vector<OpCase>& cases) : cases_(cases) {}

  // Add adds a case, with bfloat16 too if the operation has operands of low precision.
  template <class Make>
  void Add(std::string name, Make make) {
    Append(std::move(name), make, true, kHasHalves<MadeBy<Make>>);
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

  template <class Make>
  void Append(std::string name, Make make, bool plain, bool bf16) {
    cases_.push_back({std::string(MadeBy<Make>::kName), std::move(name),
                      [make](OpMemory& memory) -> AnyOp { return make(memory); }, plain, bf16});
  }

  std::vector<OpCase>& cases_;
};

// RunReference(forward) makes what the backward reads of the forward.
template <class Op>
void RunReference(const Op& op) {
  MakeReferenceBackend()->Run(op);
}

void AddLinear(Cases cases);
void AddAttention(Cases cases);

}  // namespace folio::op_cases
