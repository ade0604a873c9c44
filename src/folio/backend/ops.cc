#include "folio/backend/ops.h"

#include <fmt/format.h>

#include <initializer_list>

#include "folio/base/check.h"
#include "folio/tensor/dtype.h"

namespace folio {

namespace {

// The functions below check one operand; each aborts with the operation's and the operand's name.

// The dtype of the operand that decides it for the whole operation: F32 or F64.
Dtype NumberDtype(std::string_view op, std::string_view name, const Tensor& x) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype() == Dtype::kF32 || x.dtype() == Dtype::kF64,
              fmt::format("{}: {} is {}, expected F32 or F64", op, name, DtypeName(x.dtype())));
  return x.dtype();
}

// The same for a weight that is marked "stored".
Dtype StoredDtype(std::string_view op, std::string_view name, const Tensor& x) {
  return IsStored(x.dtype()) ? Dtype::kF32 : NumberDtype(op, name, x);
}

// Checks the dtype of an operand that is marked Low, in an operation on `number`s, and returns it.
Dtype LowDtype(std::string_view op, std::string_view name, Dtype dtype, Dtype number) {
  FOLIO_CHECK(dtype == number || (dtype == Dtype::kBF16 && number == Dtype::kF32),
              fmt::format("{}: {} is {}, expected {}{}", op, name, DtypeName(dtype),
                          DtypeName(number), number == Dtype::kF32 ? " or BF16" : ""));
  return dtype;
}

void CheckOperand(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
                  const Shape& shape) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype() == dtype, fmt::format("{}: {} is {}, expected {}", op, name,
                                              DtypeName(x.dtype()), DtypeName(dtype)));
  FOLIO_CHECK(x.shape() == shape, fmt::format("{}: {} is {}, expected {}", op, name,
                                              x.shape().ToString(), shape.ToString()));
}

// CheckOperand for an operand that is marked Low. Returns true if its precision is low.
bool CheckLow(std::string_view op, std::string_view name, const Tensor& x, Dtype number,
              const Shape& shape) {
  CheckOperand(op, name, x, LowDtype(op, name, x.dtype(), number), shape);
  return x.dtype() != number;
}

// CheckOperand, if x is present.
void CheckOptional(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
                   const Shape& shape) {
  if (x) CheckOperand(op, name, x, dtype, shape);
}

void CheckRank(std::string_view op, std::string_view name, const Tensor& x, int rank) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.shape().rank() == rank, fmt::format("{}: {} is {}, expected {} dimensions", op,
                                                    name, x.shape().ToString(), rank));
}

void CheckSequence(std::string_view op, std::string_view name, const SequenceView& x, Dtype dtype,
                   int64_t B, int64_t T, int64_t C) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype == dtype, fmt::format("{}: {} is {}, expected {}", op, name,
                                            DtypeName(x.dtype), DtypeName(dtype)));
  FOLIO_CHECK(x.B == B && x.T == T && x.C == C,
              fmt::format("{}: {} is ({}, {}, {}), expected ({}, {}, {})", op, name, x.B, x.T, x.C,
                          B, T, C));
  FOLIO_CHECK(T <= 1 || x.row_stride >= C, fmt::format("{}: rows of {} overlap", op, name));
}

void CheckDropout(std::string_view op, const Dropout& dropout) {
  FOLIO_CHECK(dropout.p >= 0 && dropout.p < 1,
              fmt::format("{}: dropout {} is not in [0, 1)", op, dropout.p));
  FOLIO_CHECK(dropout.first_row >= 0, fmt::format("{}: first_row of dropout is negative", op));
  FOLIO_CHECK(dropout.first_column >= 0 && (dropout.first_column == 0 || dropout.width > 0),
              fmt::format("{}: dropout of a part of an array of no width", op));
}

bool Overlap(const Tensor& a, const Tensor& b) {
  return a && b && a.raw() < b.raw() + b.bytes() && b.raw() < a.raw() + a.bytes();
}

// Checks that no written Tensor shares memory with another operand, except `written` being exactly
// one of `may_be`. Sequence views interleave by design and are not checked.
template <class Op>
void CheckOverlap(const Op& op, std::string_view written = {},
                  std::initializer_list<std::string_view> may_be = {}) {
  VisitOperands(op, [&](std::string_view name, const auto& x, Access access) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
      if (access == Access::kRead || !x) return;
      VisitOperands(op, [&](std::string_view other_name, const auto& other, Access) {
        if constexpr (std::is_same_v<std::decay_t<decltype(other)>, Tensor>) {
          if (name == other_name || !Overlap(x, other)) return;
          const auto may = [&](std::string_view a, std::string_view b) {
            return a == written && std::ranges::count(may_be, b) > 0;
          };
          FOLIO_CHECK(x.raw() == other.raw() && (may(name, other_name) || may(other_name, name)),
                      fmt::format("{}: {} and {} share memory", Op::kName, name, other_name));
        }
      });
    }
  });
}

// The dtype of an operation whose numbers may all have low precision (ops.h).
Dtype FloatDtype(std::string_view op, std::string_view name, const Tensor& x) {
  return x && x.dtype() == Dtype::kBF16 ? Dtype::kBF16 : NumberDtype(op, name, x);
}

// The Number of an operation on rows that are marked Low.
Dtype NumberOf(std::string_view op, std::string_view name, const SequenceView& x) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  const Dtype number = x.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  LowDtype(op, name, x.dtype, number);
  return number;
}

}  // namespace

// ---- Embedding ---------------------------------------------------------------------------------

namespace {

// Checks the common parts of forward and backward: indices, tables of `number`s and their rows.
void CheckEmbedding(std::string_view op, const Tensor& ids, const Tensor& positions, Dtype number,
                    NamedOperand<Tensor> wte, NamedOperand<Tensor> wpe, NamedOperand<Tensor> rows) {
  const int64_t C = wte.view.dim(1);
  CheckOperand(op, "ids", ids, Dtype::kI32, ids.shape());
  CheckOperand(op, rows.name, rows.view, number, {ids.count(), C});
  if (wpe.view) {
    CheckRank(op, wpe.name, wpe.view, 2);
    CheckOperand(op, wpe.name, wpe.view, number, {wpe.view.dim(0), C});
    FOLIO_CHECK(positions || ids.dim(1) <= wpe.view.dim(0),
                fmt::format("{}: positions beyond {}", op, wpe.name));
  }
  CheckOptional(op, "positions", positions, Dtype::kI32, ids.shape());
}

}  // namespace

void EmbeddingForward::Check() const {
  CheckRank(kName, "ids", ids, 2);
  CheckRank(kName, "wte", wte, 2);
  CheckEmbedding(kName, ids, positions, StoredDtype(kName, "wte", wte), Reads("wte", wte),
                 Reads("wpe", wpe), Writes("out", out));
  CheckOverlap(*this);
}

void EmbeddingBackward::Check() const {
  CheckRank(kName, "ids", ids, 2);
  CheckRank(kName, "d_wte", d_wte, 2);
  CheckEmbedding(kName, ids, positions, NumberDtype(kName, "d_wte", d_wte), Updates("d_wte", d_wte),
                 Updates("d_wpe", d_wpe), Reads("d_out", d_out));
  CheckOverlap(*this);
}

// ---- LayerNorm ---------------------------------------------------------------------------------

namespace {

// Checks the common parts of norms of rows, forward and backward; `out` is the result, or its
// gradient. Returns the dtype of the numbers.
template <class Op>
Dtype CheckRowNorm(const Op& op, std::string_view name, const Tensor& out) {
  constexpr std::string_view kName = Op::kName;
  CheckRank(kName, "x", op.x, 2);
  const Dtype number = NumberDtype(kName, "x", op.x);
  const int64_t N = op.x.dim(0), C = op.x.dim(1);
  FOLIO_CHECK(C >= 1, fmt::format("{}: rows without elements have no mean", kName));
  if constexpr (requires { op.mean; }) {
    CheckOperand(kName, "weight", op.weight, number, {C});
    CheckOperand(kName, "mean", op.mean, number, {N});
  } else {
    CheckOptional(kName, "weight", op.weight, number, {C});
  }
  CheckOperand(kName, "rstd", op.rstd, number, {N});
  const bool low = CheckLow(kName, name, out, number, {N, C});
  if constexpr (requires { op.d_x; }) {
    CheckOperand(kName, "d_x", op.d_x, number, {N, C});
    CheckOptional(kName, "d_weight", op.d_weight, number, {C});
    if (op.d_x_low) CheckLow(kName, "d_x_low", op.d_x_low, number, {N, C});
    CheckOverlap(op, "d_out", {"d_x_low", low || op.accumulate_d_x ? "" : "d_x"});
  } else {
    CheckOverlap(op);
  }
  return number;
}

}  // namespace

void LayerNormForward::Check() const {
  const Dtype number = CheckRowNorm(*this, "out", out);
  CheckOptional(kName, "bias", bias, number, {x.dim(1)});
}

void LayerNormBackward::Check() const {
  const Dtype number = CheckRowNorm(*this, "d_out", d_out);
  CheckOptional(kName, "d_bias", d_bias, number, {x.dim(1)});
}

// ---- RMSNorm -----------------------------------------------------------------------------------

namespace {

// Checks the common parts of forward and backward, `x` being the operand that they change in place.
template <class Op>
void CheckHeadNorm(const Op& op, std::string_view name, const SequenceView& x) {
  constexpr std::string_view kName = Op::kName;
  const Dtype number = NumberOf(kName, name, x);
  CheckSequence(kName, name, x, x.dtype, x.B, x.T, x.C);
  FOLIO_CHECK(op.group >= 1 && x.C % op.group == 0,
              fmt::format("{}: {} channels do not divide into groups of {}", kName, x.C, op.group));
  CheckOptional(kName, "weight", op.weight, number, {op.group});
  CheckOptional(kName, "raw", op.raw, x.dtype, {x.B * x.T, x.C});
  CheckOptional(kName, "rstd", op.rstd, number, {x.B * x.T, x.C / op.group});
  CheckOptional(kName, "sums", op.sums, number, {x.B * x.T});
  FOLIO_CHECK(!op.sums || (op.group == x.C && op.whole >= x.C),
              fmt::format("{}: sums of rows of {} for groups of {} of {} channels", kName, op.whole,
                          op.group, x.C));
  CheckOverlap(op);
}

}  // namespace

void RmsNormForward::Check() const {
  CheckRowNorm(*this, "out", out);
}

void RmsNormBackward::Check() const {
  CheckRowNorm(*this, "d_out", d_out);
}

void HeadNormForward::Check() const {
  CheckHeadNorm(*this, "x", x);
}

void HeadNormBackward::Check() const {
  CheckHeadNorm(*this, "d_x", d_x);
  const Dtype number = NumberOf(kName, "d_x", d_x);
  CheckOperand(kName, "raw", raw, d_x.dtype, raw.shape());
  CheckOperand(kName, "rstd", rstd, number, rstd.shape());
  CheckOptional(kName, "d_weight", d_weight, number, {group});
}

void HeadNormSums::Check() const {
  const Dtype number = NumberOf(kName, "x", x);
  CheckSequence(kName, "x", x, x.dtype, x.B, x.T, x.C);
  CheckOptional(kName, "raw", raw, x.dtype, {x.B * x.T, x.C});
  CheckOptional(kName, "weight", weight, number, {x.C});
  FOLIO_CHECK(raw || !weight, fmt::format("{}: squares have no weight", kName));
  CheckOperand(kName, "sums", sums, number, {x.B * x.T});
  CheckOverlap(*this);
}

// ---- Rotary positions --------------------------------------------------------------------------

void RotaryAngles::Check() const {
  CheckRank(kName, "out", out, 2);
  CheckOperand(kName, "out", out, NumberDtype(kName, "out", out),
               {out.dim(0), 2 * static_cast<int64_t>(inv_freq.size())});
  if (!positions) return;
  CheckOperand(kName, "positions", positions, Dtype::kI32, positions.shape());
  FOLIO_CHECK(positions.count() == out.dim(0),
              fmt::format("{}: {} positions for {} rows", kName, positions.count(), out.dim(0)));
  CheckOverlap(*this);
}

void Rotary::Check() const {
  CheckRank(kName, "table", table, 2);
  const Dtype number = NumberDtype(kName, "table", table);
  CheckSequence(kName, "x", x, LowDtype(kName, "x", x.dtype, number), x.B, x.T, x.C);
  const int64_t r = table.dim(1);
  CheckOperand(kName, "table", table, number, {table.dim(0) == x.T ? x.T : x.B * x.T, r});
  FOLIO_CHECK(D >= 1 && x.C % D == 0,
              fmt::format("{}: {} channels do not divide into heads of {}", kName, x.C, D));
  FOLIO_CHECK(r % 2 == 0 && r <= D,
              fmt::format("{}: {} channels of a head of {} do not turn in pairs", kName, r, D));
}

// 4 products and 2 sums for each pair.
double Rotary::Flops() const {
  return Count(x) / static_cast<double>(D) * static_cast<double>(table.dim(1)) * 3;
}

// ---- Linear ------------------------------------------------------------------------------------

namespace {

double ActivationFlops(Activation kind) {
  return std::ranges::find(kActivations, kind, &NamedActivation::kind)->flops;
}

}  // namespace

void LinearForward::Check() const {
  CheckRank(kName, "x", x, 2);
  CheckRank(kName, "weight", weight, 2);
  const Dtype number = StoredDtype(kName, "weight", weight);
  const int64_t N = x.dim(0), I = x.dim(1), O = weight.dim(transposed ? 0 : 1);
  const bool half = LowDtype(kName, "x", x.dtype(), number) != number;
  FOLIO_CHECK(!half || weight.dtype() == number || weight.dtype() == Dtype::kBF16,
              fmt::format("{}: bfloat16 rows do not go with a stored weight", kName));
  FOLIO_CHECK(half || transposed || weight.dtype() == number,
              fmt::format("{}: a stored weight is (O,I)", kName));
  CheckOperand(kName, "weight", weight, weight.dtype(), transposed ? Shape{O, I} : Shape{I, O});
  CheckOptional(kName, "bias", bias, number, {O});
  CheckOperand(kName, "out", out, half ? LowDtype(kName, "out", out.dtype(), number) : number,
               {N, O});
  CheckOptional(kName, "act", act, out.dtype(), {N, O});
  FOLIO_CHECK(!accumulate || (!bias && !act),
              fmt::format("{}: a sum takes neither bias nor activation", kName));
  CheckOverlap(*this);
}

double LinearForward::Flops() const {
  const double N = static_cast<double>(x.dim(0)), count = Count(out);
  return 2 * N * Count(weight) + (bias || accumulate ? count : 0) +
         (act ? count * ActivationFlops(activation) : 0);
}

void LinearBackward::Check() const {
  CheckRank(kName, "d_out", d_out, 2);
  CheckRank(kName, "weight", weight, 2);
  const bool low_weight = d_out.dtype() == Dtype::kBF16 && weight.dtype() == Dtype::kBF16;
  const Dtype number = low_weight ? Dtype::kF32 : NumberDtype(kName, "weight", weight);
  const int64_t N = d_out.dim(0), O = d_out.dim(1), I = weight.dim(transposed ? 1 : 0);
  const Shape weight_shape = transposed ? Shape{O, I} : Shape{I, O};
  CheckOperand(kName, "weight", weight, weight.dtype(), weight_shape);
  const Dtype half = LowDtype(kName, "d_out", d_out.dtype(), number);
  if (d_x) {
    CheckOperand(kName, "d_x", d_x,
                 half == number ? number : LowDtype(kName, "d_x", d_x.dtype(), number), {N, I});
  }
  if (pre) {
    FOLIO_CHECK(d_x && !accumulate_d_x,
                fmt::format("{}: pre goes with a d_x that is overwritten", kName));
    CheckOperand(kName, "pre", pre, d_x.dtype(), {N, I});
  }
  if (d_weight) CheckOperand(kName, "x", x, half, {N, I});
  CheckOptional(kName, "d_weight", d_weight, number, weight_shape);
  CheckOptional(kName, "d_bias", d_bias, number, {O});
  CheckOverlap(*this);
}

double LinearBackward::Flops() const {
  const double product = 2 * static_cast<double>(d_out.dim(0)) * Count(weight);
  return product * ((d_x ? 1 : 0) + (d_weight ? 1 : 0)) + (d_bias ? Count(d_out) : 0) +
         (pre ? Count(pre) * 2 * ActivationFlops(activation) : 0);
}

// ---- Activation --------------------------------------------------------------------------------

void ActivationForward::Check() const {
  CheckRank(kName, "x", x, 2);
  CheckOperand(kName, "out", out, FloatDtype(kName, "x", x), x.shape());
  CheckOverlap(*this);
}

double ActivationForward::Flops() const {
  return Count(x) * ActivationFlops(kind);
}

void ActivationBackward::Check() const {
  CheckRank(kName, "x", x, 2);
  const Dtype dtype = FloatDtype(kName, "x", x);
  CheckOperand(kName, "d_out", d_out, dtype, x.shape());
  CheckOperand(kName, "d_x", d_x, dtype, x.shape());
  CheckOverlap(*this, "d_x", {"d_out"});
}

double ActivationBackward::Flops() const {
  return Count(x) * 2 * ActivationFlops(kind);
}

// ---- Gate --------------------------------------------------------------------------------------

void GatedForward::Check() const {
  CheckRank(kName, "out", out, 2);
  const Dtype dtype = FloatDtype(kName, "out", out);
  CheckOperand(kName, "x", x, dtype, {out.dim(0), 2 * out.dim(1)});
  CheckOverlap(*this);
}

double GatedForward::Flops() const {
  return Count(out) * (ActivationFlops(kind) + 1);
}

void GatedBackward::Check() const {
  CheckRank(kName, "d_out", d_out, 2);
  const Dtype dtype = FloatDtype(kName, "d_out", d_out);
  const Shape both = {d_out.dim(0), 2 * d_out.dim(1)};
  CheckOperand(kName, "x", x, dtype, both);
  CheckOperand(kName, "d_x", d_x, dtype, both);
  CheckOverlap(*this, "d_x", {"x"});
}

// The activation, its slope, and a product of each with the gradient and with up.
double GatedBackward::Flops() const {
  return Count(d_out) * (3 * ActivationFlops(kind) + 3);
}

// ---- Attention ---------------------------------------------------------------------------------

namespace {

// How many of the `keys` keys up to its own a query attends to.
int64_t KeysInWindow(int64_t keys, int64_t window) {
  return window == 0 ? keys : std::min(keys, window);
}

// Flops of the pairs of a query and a key that it may attend to, ignoring padding: `channel` for
// each channel, `head` and those of a cap for each head.
template <class Op>
double PairFlops(const Op& op, double channel, double head) {
  const int64_t T = op.q.T, S = op.k.T;
  double pairs = op.causal ? 0 : static_cast<double>(T) * static_cast<double>(S);
  for (int64_t t = 0; op.causal && t < T; ++t) {
    const int64_t keys = std::clamp<int64_t>(t + S - T + 1, 0, S);
    pairs += static_cast<double>(KeysInWindow(keys, op.window));
  }
  return static_cast<double>(op.q.B) * pairs *
         (channel * static_cast<double>(op.q.C) + head * static_cast<double>(op.H));
}

void CheckScores(std::string_view op, double cap, int64_t window, bool causal) {
  FOLIO_CHECK(cap >= 0, fmt::format("{}: a cap of {}", op, cap));
  FOLIO_CHECK(window >= 0, fmt::format("{}: a window of {}", op, window));
  FOLIO_CHECK(window == 0 || causal,
              fmt::format("{}: a window of {} in attention that is not causal", op, window));
}

// The width of keys and values: G heads as wide as the heads of C channels of queries.
int64_t KeyChannels(std::string_view op, int64_t C, int64_t H, int64_t G) {
  FOLIO_CHECK(H >= 1 && C >= 1 && C % H == 0,
              fmt::format("{}: {} channels do not divide into {} heads", op, C, H));
  FOLIO_CHECK(
      G >= 0 && (G == 0 || H % G == 0),
      fmt::format("{}: {} heads of queries cannot share {} heads of keys evenly", op, H, G));
  return C / H * KeyHeads(H, G);
}

// Checks the common parts of attention's forward and backward; returns the dtype of q, k and v.
template <class Op>
Dtype CheckAttention(const Op& op) {
  constexpr std::string_view kName = Op::kName;
  const Dtype number = NumberDtype(kName, "lse", op.lse);
  const int64_t B = op.q.B, T = op.q.T, S = op.k.T, C = op.q.C;
  const int64_t key_channels = KeyChannels(kName, C, op.H, op.G);
  const Dtype half = LowDtype(kName, "q", op.q.dtype, number);
  CheckSequence(kName, "q", op.q, half, B, T, C);
  CheckSequence(kName, "k", op.k, half, B, S, key_channels);
  CheckSequence(kName, "v", op.v, half, B, S, key_channels);
  CheckSequence(kName, "out", op.out, half, B, T, C);
  CheckOptional(kName, "key_mask", op.key_mask, Dtype::kU8, {B, S});
  if (op.mask) {
    CheckRank(kName, "mask", op.mask, 4);
    CheckOperand(kName, "mask", op.mask, op.mask.dtype() == Dtype::kU8 ? Dtype::kU8 : number,
                 {op.mask.dim(0) == 1 ? 1 : B, 1, T, S});
  }
  CheckOperand(kName, "lse", op.lse, number, {B, op.H, T});
  CheckScores(kName, op.cap, op.window, op.causal);
  CheckDropout(kName, op.dropout);
  return half;
}

}  // namespace

void AttentionForward::Check() const {
  CheckAttention(*this);
  CheckOptional(kName, "probs", probs, lse.dtype(), {q.B, H, q.T, k.T});
  CheckOverlap(*this);
}

// For each pair and head: score 2D, cap 3, softmax 5, weighted sum 2D.
double AttentionForward::Flops() const {
  return PairFlops(*this, 4, cap > 0 ? 8 : 5);
}

void AttentionBackward::Check() const {
  const Dtype half = CheckAttention(*this);
  CheckSequence(kName, "d_out", d_out, half, q.B, q.T, q.C);
  CheckSequence(kName, "d_q", d_q, half, q.B, q.T, q.C);
  CheckSequence(kName, "d_k", d_k, half, q.B, k.T, k.C);
  CheckSequence(kName, "d_v", d_v, half, q.B, k.T, k.C);
}

// For each pair and head: score, weight's gradient, d_q, d_k and d_v 2D each, softmax 6, cap 3 and
// its slope 3.
double AttentionBackward::Flops() const {
  return PairFlops(*this, 10, cap > 0 ? 12 : 6);
}

// ---- Keys and values kept in pages -------------------------------------------------------------

namespace {

void CheckPages(std::string_view op, const Tensor& pages, Dtype number) {
  CheckRank(op, "pages", pages, 5);
  FOLIO_CHECK(pages.dim(2) == 2 && pages.dim(3) >= 1 && pages.dim(4) >= 1,
              fmt::format("{}: pages are (M,G,2,R,D)", op));
  FOLIO_CHECK(number != Dtype::kBF16, fmt::format("{}: only pages may be BF16", op));
  LowDtype(op, "pages", pages.dtype(), number);
}

int64_t KeyChannels(const Tensor& pages) {
  return pages.dim(1) * pages.dim(4);
}

// Returns true if positions [begin, end) of a row of a table have pages.
bool HasPages(const int32_t* table, int64_t begin, int64_t end, const Tensor& pages) {
  const int64_t R = pages.dim(3);
  return std::all_of(table + begin / R, table + (end + R - 1) / R,
                     [&](int32_t page) { return page >= 0 && page < pages.dim(0); });
}

// Checks that each of N rows is at a position of a sequence with pages for the last `window`
// positions up to it.
void CheckPlaces(std::string_view op, const Tensor& tables, const Tensor& positions,
                 const Tensor& pages, int64_t N, int64_t window) {
  CheckRank(op, "tables", tables, 2);
  const int64_t W = tables.dim(1), R = pages.dim(3);
  CheckOperand(op, "tables", tables, Dtype::kI32, {N, W});
  CheckOperand(op, "positions", positions, Dtype::kI32, {N});
  for (int64_t n = 0; n < N; ++n) {
    const int64_t position = positions.data<int32_t>()[n];
    FOLIO_CHECK(
        position >= 0 && position < W * R &&
            HasPages(tables.data<int32_t>() + n * W,
                     position + 1 - KeysInWindow(position + 1, window), position + 1, pages),
        fmt::format("{}: row {} has no page", op, n));
  }
}

}  // namespace

void CacheWrite::Check() const {
  CheckPages(kName, pages, k.dtype);
  const int64_t N = k.T, C = KeyChannels(pages);
  CheckSequence(kName, "k", k, k.dtype, 1, N, C);
  CheckSequence(kName, "v", v, k.dtype, 1, N, C);
  CheckPlaces(kName, tables, positions, pages, N, /*window=*/1);
  CheckOverlap(*this);
}

void CacheRead::Check() const {
  CheckPages(kName, pages, k.dtype);
  const int64_t S = k.T, C = KeyChannels(pages), R = pages.dim(3);
  CheckSequence(kName, "k", k, k.dtype, 1, S, C);
  CheckSequence(kName, "v", v, k.dtype, 1, S, C);
  CheckRank(kName, "table", table, 1);
  CheckOperand(kName, "table", table, Dtype::kI32, table.shape());
  FOLIO_CHECK(first >= 0 && table.dim(0) * R >= first + S &&
                  HasPages(table.data<int32_t>(), first, first + S, pages),
              fmt::format("{}: positions without a page", kName));
}

void CacheAttention::Check() const {
  CheckPages(kName, pages, q.dtype);
  const int64_t N = q.T, G = pages.dim(1), D = pages.dim(4);
  FOLIO_CHECK(H >= G && G >= 1 && H % G == 0,
              fmt::format("{}: {} heads cannot share {} of keys", kName, H, G));
  CheckSequence(kName, "q", q, q.dtype, 1, N, H * D);
  CheckSequence(kName, "out", out, q.dtype, 1, N, H * D);
  CheckScores(kName, cap, window, /*causal=*/true);
  CheckPlaces(kName, tables, positions, pages, N, window);
}

// Each pair and head counts like in AttentionForward.
double CacheAttention::Flops() const {
  double pairs = 0;
  for (int64_t n = 0; n < q.T; ++n) {
    pairs += static_cast<double>(KeysInWindow(positions.data<int32_t>()[n] + 1, window));
  }
  return pairs * (4 * static_cast<double>(q.C) + (cap > 0 ? 8 : 5) * static_cast<double>(H));
}

// ---- Residual ----------------------------------------------------------------------------------

void ResidualForward::Check() const {
  CheckRank(kName, "x", x, 2);
  const Dtype number = residual ? NumberDtype(kName, "out", out) : FloatDtype(kName, "out", out);
  const bool low = CheckLow(kName, "x", x, number, x.shape());
  CheckOptional(kName, "residual", residual, number, x.shape());
  CheckOperand(kName, "out", out, number, x.shape());
  CheckDropout(kName, dropout);
  CheckOverlap(*this, "out", {"residual", low ? "" : "x"});
}

void ResidualBackward::Check() const {
  CheckRank(kName, "d_out", d_out, 2);
  const Dtype number = NumberDtype(kName, "d_out", d_out);
  const bool low = CheckLow(kName, "d_x", d_x, number, d_out.shape());
  CheckDropout(kName, dropout);
  CheckOverlap(*this, "d_x", {low ? "" : "d_out"});
}

// ---- Cap of logits -----------------------------------------------------------------------------

template <class NormOp>
void ResidualNorm<NormOp>::Check() const {
  FOLIO_CHECK(!norm.x, fmt::format("{}: the norm is of another array", kName));
  residual.Check();
  Norm().Check();
  CheckOverlap(*this, "sum", {"residual", residual.x.dtype() == residual.out.dtype() ? "x" : ""});
}
template struct ResidualNorm<LayerNormForward>;
template struct ResidualNorm<RmsNormForward>;

void LogitCap::Check() const {
  CheckRank(kName, "x", x, 2);
  FloatDtype(kName, "x", x);
  FOLIO_CHECK(cap > 0, fmt::format("{}: a cap of {}", kName, cap));
}

// ---- Cross-entropy -----------------------------------------------------------------------------

namespace {

// Checks the common parts of forward and backward. Returns the dtype of the numbers.
template <class Op>
Dtype CheckCrossEntropy(const Op& op) {
  constexpr std::string_view kName = Op::kName;
  CheckRank(kName, "logits", op.logits, 2);
  const Dtype low = FloatDtype(kName, "logits", op.logits);
  const Dtype number = low == Dtype::kBF16 ? Dtype::kF32 : low;
  const int64_t N = op.logits.dim(0), W = op.logits.dim(1);
  FOLIO_CHECK(W >= 1 && op.V >= 0 && op.V <= W,
              fmt::format("{}: a vocabulary of {} in rows of {}", kName, op.V, W));
  CheckOperand(kName, "targets", op.targets, Dtype::kI32, {N});
  CheckOperand(kName, "lse", op.lse, number, {N});
  FOLIO_CHECK(op.cap >= 0, fmt::format("{}: a cap of {}", kName, op.cap));
  if (!op.d_logits) return number;
  CheckLow(kName, "d_logits", op.d_logits, number, op.logits.shape());
  FOLIO_CHECK(low == number || op.d_logits.dtype() == low,
              fmt::format("{}: d_logits of logits of {}", kName, DtypeName(low)));
  return number;
}

}  // namespace

void CrossEntropy::Check() const {
  CheckOperand(kName, "losses", losses, CheckCrossEntropy(*this), {logits.dim(0)});
  CheckOverlap(*this, "d_logits", {d_logits.dtype() == logits.dtype() ? "logits" : ""});
}

void CrossEntropyBackward::Check() const {
  CheckCrossEntropy(*this);
  CheckOperand(kName, "d_logits", d_logits, d_logits.dtype(), logits.shape());
  CheckOverlap(*this, "d_logits", {d_logits.dtype() == logits.dtype() ? "logits" : ""});
}

// ---- Mixes and sums with gates -----------------------------------------------------------------

namespace {

// Checks the common parts of a mix's forward and backward. Returns the dtype of its numbers.
template <class Op>
Dtype CheckMix(const Op& op) {
  constexpr std::string_view kName = Op::kName;
  CheckRank(kName, "x", op.x, 2);
  const Dtype number = NumberDtype(kName, "x", op.x);
  CheckOperand(kName, "y", op.y, number, op.x.shape());
  CheckOptional(kName, "x_factor", op.x_factor, number, {1});
  CheckOperand(kName, "y_factor", op.y_factor, number, {1});
  return number;
}

// The same for a sum with gates; `out` is the sum, or its gradient.
template <class Op>
Dtype CheckGatedAdd(const Op& op, std::string_view name, const SequenceView& out) {
  constexpr std::string_view kName = Op::kName;
  CheckRank(kName, "weight", op.weight, 2);
  CheckRank(kName, "x", op.x, 2);
  const Dtype number = NumberDtype(kName, "weight", op.weight);
  const int64_t N = op.x.dim(0), G = op.weight.dim(0), J = op.weight.dim(1);
  CheckLow(kName, "x", op.x, number, {N, op.x.dim(1)});
  FOLIO_CHECK(J <= op.x.dim(1),
              fmt::format("{}: {} columns cannot open gates of {}", kName, op.x.dim(1), J));
  CheckSequence(kName, name, out, LowDtype(kName, name, out.dtype, number), out.B, out.T, out.C);
  FOLIO_CHECK(G >= 1 && out.C % G == 0 && out.B * out.T == N,
              fmt::format("{}: {} rows of {} columns do not divide into {} rows of {} groups",
                          kName, out.B * out.T, out.C, N, G));
  CheckOperand(kName, "y", op.y, number, {N, out.C});
  CheckOptional(kName, "factor", op.factor, number, {1});
  return number;
}

}  // namespace

void MixForward::Check() const {
  CheckOperand(kName, "out", out, CheckMix(*this), x.shape());
  CheckOverlap(*this);
}

void MixBackward::Check() const {
  const Dtype number = CheckMix(*this);
  CheckOperand(kName, "d_out", d_out, number, x.shape());
  CheckOperand(kName, "d_x", d_x, number, x.shape());
  CheckOperand(kName, "d_y", d_y, number, x.shape());
  CheckOptional(kName, "d_x_factor", d_x_factor, number, {1});
  CheckOptional(kName, "d_y_factor", d_y_factor, number, {1});
  CheckOverlap(*this, "d_x", {"d_out"});
}

double GatedAddForward::Flops() const {
  return Count(out) * 2 + static_cast<double>(x.dim(0) * weight.count()) * 2;
}

double GatedAddBackward::Flops() const {
  return Count(d_out) * 3 + static_cast<double>(x.dim(0) * weight.count()) * (d_weight ? 6 : 4);
}

void GatedAddForward::Check() const {
  CheckGatedAdd(*this, "out", out);
  CheckOverlap(*this);
}

void GatedAddBackward::Check() const {
  const Dtype number = CheckGatedAdd(*this, "d_out", d_out);
  CheckOperand(kName, "d_y", d_y, number, y.shape());
  CheckLow(kName, "d_x", d_x, number, x.shape());
  CheckOptional(kName, "d_weight", d_weight, number, weight.shape());
  CheckOptional(kName, "d_factor", d_factor, number, {1});
  CheckOverlap(*this, "d_y", {"y"});
}

// ---- Optimizer ---------------------------------------------------------------------------------

void AdamWUpdate::Check() const {
  const Dtype number = NumberDtype(kName, "param", param);
  CheckOperand(kName, "grad", grad, number, param.shape());
  CheckOperand(kName, "m", m, number, param.shape());
  CheckOperand(kName, "v", v, number, param.shape());
  if (low) CheckLow(kName, "low", low, number, param.shape());
  FOLIO_CHECK(step >= 1, fmt::format("{}: steps are counted from 1", kName));
  CheckOverlap(*this);
}

void SumOfElements::Check() const {
  NumberDtype(kName, "x", x);
  CheckOperand(kName, "out", out, Dtype::kF64, {1});
  CheckOverlap(*this);
}

void SumOfSquares::Check() const {
  NumberDtype(kName, "x", x);
  FOLIO_CHECK(block >= 0, "blocks of fewer than no elements");
  const int64_t blocks = block > 0 ? (x.count() + block - 1) / block : 1;
  CheckOperand(kName, "out", out, Dtype::kF64, {blocks});
  CheckOverlap(*this);
}

void Scale::Check() const {
  CheckRank(kName, "x", x, 2);
  CheckOperand(kName, "x", x, FloatDtype(kName, "x", x), x.shape());
}

void CopyColumns::Check() const {
  const Dtype number = x.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  CheckSequence(kName, "x", x, number, x.B, x.T, x.C);
  CheckSequence(kName, "out", out, number, x.B, x.T, x.C);
  CheckOverlap(*this);
}

void Fill::Check() const {
  NumberDtype(kName, "out", out);
}

}  // namespace folio
