#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

namespace folio {

// Access says what an operation does with an operand.
enum class Access { kRead, kWrite, kUpdate };

// An operand of an operation that is still there: a Tensor or a SequenceView.
template <class View>
struct NamedOperand {
  std::string_view name;
  const View& view;
  Access access;
};
template <class View>
NamedOperand<View> Reads(std::string_view name, const View& view) {
  return {name, view, Access::kRead};
}
template <class View>
NamedOperand<View> Updates(std::string_view name, const View& view) {
  return {name, view, Access::kUpdate};
}
// Writes names an operand that is overwritten or, if `adds`, added to.
template <class View>
NamedOperand<View> Writes(std::string_view name, const View& view, bool adds = false) {
  return {name, view, adds ? Access::kUpdate : Access::kWrite};
}

// Calls f(name, view, access) for each operand, also those that are absent.
template <class Op, class F>
void VisitOperands(const Op& op, F&& f) {
  std::apply([&](const auto&... x) { (f(x.name, x.view, x.access), ...); }, op.operands());
}

// Inverted dropout: each element is zeroed with probability p, the others are multiplied by
// 1/(1-p). Element (row, column) of an array of `columns` is zeroed where CounterRng(seed,
// stream).Bits((first_row + row) * RoundUp(columns, 64) + column) < p * 2^32, so that it depends on
// its place in the whole batch and not on threads or micro-batches. The array may be a part of a
// wider one, or of more heads, whose numbers it then has.
struct Dropout {
  double p = 0;  // [0, 1)
  uint64_t seed = 0;
  uint64_t stream = 0;
  int64_t first_row = 0;
  int64_t first_column = 0, width = 0;  // in the wider array, and of that; 0: this is all of it
  int64_t heads = 0;                    // of attention, likewise: first_row has the first one's

  bool active() const { return p > 0; }
  uint32_t threshold() const { return static_cast<uint32_t>(p * 4294967296.0); }
  double scale() const { return 1.0 / (1.0 - p); }
  // Index is the number that element (row, column) of an array of `columns` has in the whole batch.
  int64_t Index(int64_t row, int64_t column, int64_t columns) const {
    return (first_row + row) * RowStride(width > 0 ? width : columns) + first_column + column;
  }
  // Row is Index's row of query t of head h of sequence b, where there are H heads here.
  int64_t Row(int64_t b, int64_t h, int64_t t, int64_t H, int64_t T) const {
    return (b * (heads > 0 ? heads : H) + h) * T + t;
  }
  static int64_t RowStride(int64_t width) { return (width + 63) / 64 * 64; }
};

}  // namespace folio
