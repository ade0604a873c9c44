#include "folio/train/layer_norms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "folio/model/param_list.h"
#include "folio/train/test_training.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

double Norm(const Tensor& x, double sum = 0) {
  for (const float value : Elements<float>(x)) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

TEST_F(Training, LayerNormsAreThoseOfTheirParts) {
  const GptWeights weights(model_), grads(model_);
  Scatter(weights, 1);
  Scatter(grads, 2);
  LayerNormMeter meter(*backend_, weights);
  meter.Begin();
  for (int i = 0; i < 4; ++i) weights.params().h[1].mlp.c_fc.weight.data<float>()[i] += 0.5F;
  weights.params().wpe.data<float>()[0] -= 3;
  const LayerNorms norms = meter.End(grads.flat());
  ASSERT_EQ(norms.grad.size(), static_cast<size_t>(model_.n_layer) + 1);
  double whole = 0, outside = 0;
  for (const double norm : norms.grad) whole += norm * norm;
  EXPECT_NEAR(std::sqrt(whole), Norm(grads.flat()), 1e-6 * Norm(grads.flat()));
  for (const ParamInfo& info : weights.table().params()) {
    const double norm = Norm(weights.table().View(info, weights.flat()));
    if (info.layer < 0) outside += norm * norm;
  }
  EXPECT_NEAR(norms.weight[0], std::sqrt(outside), 1e-6 * norms.weight[0]);
  EXPECT_NEAR(norms.update[0], 3, 1e-5);
  EXPECT_EQ(norms.update[1], 0);
  EXPECT_NEAR(norms.update[2], 1, 1e-5);
}

TEST_F(Training, LayerNormsAreInTheMetricsOnRequest) {
  TrainerHooks hooks;
  hooks.layer_norms_every = 4;
  Make("run", hooks).Run();
  for (const StepMetrics& m : ReadRunLog(At("run"))) {
    ASSERT_EQ(m.layer_norms.has_value(), m.loss && m.step % 4 == 0) << m.step;
    if (!m.layer_norms) continue;
    double sum = 0;
    for (const double norm : m.layer_norms->grad) sum += norm * norm;
    EXPECT_NEAR(std::sqrt(sum), *m.grad_norm, 1e-6 * *m.grad_norm) << m.step;
    for (const double norm : m.layer_norms->update) EXPECT_GT(norm, 0) << m.step;
  }
  Run("plain");
  ExpectSameFiles("run/last", "plain/last");
  EXPECT_FALSE(Contains(ReadFile(At("plain") / kMetricsFile), "norms"));
}

}  // namespace
}  // namespace folio
