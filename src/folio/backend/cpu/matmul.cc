#include "folio/backend/cpu/matmul.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/simd_targets.h"

namespace folio::cpu {
namespace {

// ---- oneDNN ------------------------------------------------------------------------------------

// IsaOf is what oneDNN may use at most for a target that was forced; nothing where it has no name
// for that.
std::optional<dnnl_cpu_isa_t> IsaOf(std::string_view target) {
  if (target == "AMX" || target.starts_with("AVX3")) return dnnl_cpu_isa_avx512_core;
  if (target == "AVX2") return dnnl_cpu_isa_avx2;
  if (target == "SSE4") return dnnl_cpu_isa_sse41;
  return std::nullopt;
}

struct Binding {
  std::string target;
  std::vector<bool> serves = {};  // by SimdTargetRank()
};

// Unless a lower target is in use, oneDNN chooses for itself (and heeds DNNL_MAX_CPU_ISA). It
// refuses a choice where the program around used it before; then it may use all that there is.
Binding Bind() {
  const std::vector<std::string> targets = SimdTargets();
  const std::optional<dnnl_cpu_isa_t> isa = IsaOf(SimdTarget());
  const bool held =
      SimdTargetRank() > 0 && isa.has_value() && dnnl_set_max_cpu_isa(*isa) == dnnl_success;
  Binding binding{.target = held ? SimdTarget() : targets.front()};
  const std::optional<dnnl_cpu_isa_t> bound = IsaOf(binding.target);
  for (const std::string& target : targets) {
    binding.serves.push_back(target == binding.target ||
                             (bound.has_value() && IsaOf(target) == bound));
  }
  return binding;
}

const Binding& Bound() {
  static const Binding binding = Bind();
  return binding;
}

}  // namespace

bool OneDnnProduct(const MatMulArgs& args) {
  if (!Bound().serves[SimdTargetRank()]) return false;
  HoldSignals();  // its code points the stack register into a buffer of the heap
  const dnnl_status_t status =
      dnnl_sgemm(args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', args.M, args.N, args.K,
                 1.0f, args.a, args.lda, args.b, args.ldb, args.beta, args.c, args.ldc);
  FOLIO_CHECK(status == dnnl_success, "oneDNN refused a matrix product");
  return true;
}

std::string OneDnnDescription() {
  const dnnl_version_t* version = dnnl_version();
  std::string name = fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  if (Bound().serves[SimdTargetRank()]) return name;
  return fmt::format("no oneDNN ({} stays with {})", name, Bound().target);
}

// ---- Products and how they are cut -------------------------------------------------------------

namespace {

// Cost of a cut in multiply-adds. A tile pays for packing its operands and writing its result
// (about 40 multiply-adds an element) and for the call itself; tiles run in rounds of kRound, a
// multiple of the number of cores on most machines.
double CutCost(const MatMulCut& cut, int64_t K) {
  constexpr double kPerElement = 40, kPerCall = 1e5;
  constexpr int64_t kRound = 4;
  const double m = static_cast<double>(cut.rows), n = static_cast<double>(cut.columns);
  const double k = static_cast<double>(K);
  const double tile = m * n * k + kPerElement * (k * (m + n) + m * n) + kPerCall;
  return static_cast<double>(CeilDiv(cut.tiles(), kRound)) * tile;
}

// IsSmall says whether SmallProduct is faster than oneDNN, as measured with operands that come from
// a third-level cache: oneDNN packs both of them, which is slow where B is transposed, and does not
// pay where few columns of C share what was packed. It wins where B does not stay in a second-level
// cache.
bool IsSmall(const MatMulArgs& args) {
  constexpr int64_t kMaxElements = 256 * 1024;  // of B
  if (args.K * args.N > kMaxElements) return false;
  if (args.transpose_b) return true;
  return args.N <= (args.transpose_a ? 64 : 128);
}

}  // namespace

void MatMulOnThread(const MatMulArgs& args) {
  if (IsSmall(args) || !OneDnnProduct(args)) SmallProduct(args);
}

MatMulCut CutMatMul(int64_t M, int64_t N, int64_t K) {
  constexpr std::array<int64_t, 6> kRows = {32, 64, 96, 128, 192, 256};
  constexpr std::array<int64_t, 8> kColumns = {64, 128, 192, 256, 384, 512, 768, 1024};
  MatMulCut best;
  double best_cost = 0;
  for (int64_t rows : kRows) {
    for (int64_t columns : kColumns) {
      MatMulCut cut{.rows = std::min(rows, M), .columns = std::min(columns, N)};
      cut.row_tiles = CeilDiv(M, cut.rows);
      cut.column_tiles = CeilDiv(N, cut.columns);
      const double cost = CutCost(cut, K);
      if (best.rows == 0 || cost < best_cost) best = cut, best_cost = cost;
      if (columns >= N) break;
    }
    if (rows >= M) break;
  }
  return best;
}

MatMulTile TileOf(const MatMulCut& cut, int64_t M, int64_t N, int64_t index) {
  MatMulTile tile;
  tile.row = index % cut.row_tiles * cut.rows;
  tile.rows = std::min(cut.rows, M - tile.row);
  tile.column = index / cut.row_tiles * cut.columns;
  tile.columns = std::min(cut.columns, N - tile.column);
  return tile;
}

void RunTile(const MatMulArgs& args, const MatMulTile& tile) {
  MatMulArgs part = args;
  part.M = tile.rows;
  part.N = tile.columns;
  part.a += args.transpose_a ? tile.row : tile.row * args.lda;
  part.b += args.transpose_b ? tile.column * args.ldb : tile.column;
  part.c += tile.row * args.ldc + tile.column;
  MatMulOnThread(part);
}

}  // namespace folio::cpu
