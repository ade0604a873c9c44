#include "folio/run/preview.h"

#include <fmt/format.h>

#include "folio/base/log.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/dtypes.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/train/learner.h"
#include "folio/train/plan_totals.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

TrainShape ShapeOf(const RunConfig& config, const Backend& backend) {
  const TrainConfig& train = config.train;
  return {.model = config.model,
          .B = train.batch_size,
          .T = train.context,
          .grad_accumulation = train.grad_accumulation,
          .options = PassOptionsOf(train, config.model, backend)};
}

int64_t TokensPerStep(const TrainShape& shape) {
  return shape.B * shape.T * shape.grad_accumulation;
}

}  // namespace

TrainPreview::TrainPreview(const RunConfig& config, Backend& backend, const MachineMemory& memory)
    : config_(config), backend_(backend), memory_(memory), shape_(ShapeOf(config, backend)) {
  RequireTrainingFits(shape_, memory_);
  const std::string warning = MemoryWarning(PlannedBytes(shape_), memory_);
  if (!warning.empty()) LogWarning(warning);
}

std::string TrainPreview::Plan() const {
  const int64_t parameters = ParamTable(shape_.model).parameters();
  return fmt::format("{} parameters, {} tokens a step\n{} on {}, {} threads ({})\n",
                     HumanCount(static_cast<double>(parameters)), WithCommas(TokensPerStep(shape_)),
                     TrainDtypeName(shape_.options.dtype),
                     backend_.ProductUnit(shape_.options.dtype), Threads(),
                     backend_.description()) +
         DescribePlan(shape_);
}

void TrainPreview::Probe(int64_t held_out_tokens, int64_t done) {
  work_ = WorkAhead(config_.model, config_.train, held_out_tokens, done);
  speed_ = ProbeSpeed(backend_, shape_.options.dtype, work_);
}

std::string TrainPreview::Estimate() const {
  return DescribeEstimate(work_, speed_);
}

std::string TrainPreview::Event() const {
  const PlanTotals totals(Learner::Plan(shape_.model, shape_.B, shape_.T, shape_.options));
  const Json json = {{"event", "plan"},
                     {"schema", 1},
                     {"parameters", ParamTable(shape_.model).parameters()},
                     {"batch", shape_.B},
                     {"context", shape_.T},
                     {"grad_accumulation", shape_.grad_accumulation},
                     {"tokens_per_step", TokensPerStep(shape_)},
                     {"dtype", TrainDtypeName(shape_.options.dtype)},
                     {"product_unit", backend_.ProductUnit(shape_.options.dtype)},
                     {"recompute", shape_.options.recompute},
                     {"simd", SimdTarget()},
                     {"backend", backend_.name()},
                     {"backend_description", backend_.description()},
                     {"threads", Threads()},
                     {"weights_bytes", totals.weights},
                     {"gradients_bytes", totals.gradients},
                     {"optimizer_bytes", totals.optimizer},
                     {"activations_bytes", totals.activations},
                     {"logits_bytes", totals.logits},
                     {"peak_bytes", totals.peak},
                     {"memory_total_bytes", memory_.total},
                     {"memory_available_bytes", memory_.available},
                     {"steps", work_.steps},
                     {"evaluations", work_.evaluations},
                     {"flops", work_.flops},
                     {"product_flops_per_second", speed_.product_flops_per_second},
                     {"estimated_seconds", EstimatedSeconds(work_, speed_)}};
  return json.dump();
}

}  // namespace folio
