#include "folio/bench/optimizer.h"

#include <algorithm>

#include "folio/base/clock.h"
#include "folio/base/math.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/plan.h"
#include "folio/train/optimizer.h"

namespace folio {
namespace {

// Elements that one thread takes at a time.
constexpr int64_t kGrain = 1 << 15;

MemoryPlan PlanOf(int64_t parameters) {
  MemoryPlan plan;
  for (const char* name : {"param", "grad"}) plan.Add(name, Dtype::kF32, {parameters});
  plan.Place();
  return plan;
}

template <class F>
void Time(MemoryPass& pass, F&& run) {
  pass.seconds.push_back(SecondsOf(run));
}

// The arrays and their treatment.
class OptimizerBench {
 public:
  OptimizerBench(Backend& backend, int64_t parameters)
      : backend_(backend),
        plan_(PlanOf(parameters)),
        arena_(plan_),
        optimizer_(backend, Dtype::kF32, parameters),
        n_(parameters) {
    float* param = Array(0).data<float>();
    ParallelRange(n_, kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) param[i] = static_cast<float>(i % 997 - 498) * 1e-3f;
    });
  }

  // Copying makes the gradients, so that they are never zero where AdamW sees them.
  void Round(OptimizerRates& rates) {
    const Tensor param = Array(0), grad = Array(1);
    double sum = 0;
    Time(rates.copy, [&] { CopyAll(param.data<float>(), grad.data<float>(), n_); });
    Time(rates.read, [&] { ReadAll(grad.data<float>(), n_); });
    Time(rates.norm, [&] { backend_.Run(SumOfSquares{.x = grad, .out = Tensor(&sum, {1})}); });
    Time(rates.adamw, [&] {
      optimizer_.Step({}, {.lr = 1e-5, .step = ++step_}, ParamGroup::kDecayed, param, grad, 0);
    });
  }

 private:
  Tensor Array(MemoryPlan::Id id) const { return arena_.Get(plan_, id); }

  Backend& backend_;
  MemoryPlan plan_;
  Arena arena_;
  Optimizer optimizer_;
  int64_t n_;
  int64_t step_ = 0;
};

}  // namespace

double OptimizerRates::seconds_per_step() const {
  return Median(norm.seconds) + Median(adamw.seconds);
}

uint64_t OptimizerBytes(int64_t parameters) {
  MemoryPlan plan = PlanOf(parameters);
  Optimizer::AddTo(plan, Dtype::kF32, parameters);
  plan.Place();
  return plan.arena_bytes();
}

OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds) {
  constexpr size_t kFewestRounds = 3;
  OptimizerBench bench(backend, parameters);
  OptimizerRates warm_up;
  bench.Round(warm_up);
  const double array = static_cast<double>(parameters) * sizeof(float);
  OptimizerRates rates{.norm = {"gradient norm", array},
                       .adamw = {"adamw", static_cast<double>(Optimizer::kPasses) * array},
                       .read = {"read", array},
                       .copy = {"copy", 2 * array}};
  const double begin = SteadySeconds();
  while (SteadySeconds() - begin < seconds || rates.adamw.seconds.size() < kFewestRounds) {
    bench.Round(rates);
  }
  return rates;
}

}  // namespace folio
