#pragma once

namespace folio::reference {

// Sums and statistics are carried in the wider type, so that the reference is the more exact side
// of every comparison: double for float. double and complex numbers (whose imaginary part carries a
// derivative in the gradient proofs) stay what they are.
template <class Number>
struct WideOf {
  using Type = Number;
};
template <>
struct WideOf<float> {
  using Type = double;
};
template <class Number>
using Wide = typename WideOf<Number>::Type;

}  // namespace folio::reference
