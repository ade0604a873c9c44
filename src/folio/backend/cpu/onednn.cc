#include "folio/backend/cpu/onednn.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio::cpu {
namespace {

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
                 args.alpha, args.a, args.lda, args.b, args.ldb, args.beta, args.c, args.ldc);
  FOLIO_CHECK(status == dnnl_success, "oneDNN refused a matrix product");
  return true;
}

std::string OneDnnDescription() {
  const dnnl_version_t* version = dnnl_version();
  std::string name = fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  if (Bound().serves[SimdTargetRank()]) return name;
  return fmt::format("no oneDNN ({} stays with {})", name, Bound().target);
}

}  // namespace folio::cpu
