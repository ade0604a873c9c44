#include <fmt/format.h>

#include <algorithm>

#include "folio/base/rng.h"
#include "folio/lesson/attention_forms.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

// The weights that are masked after the softmax: whole, struck out, renormalised.
void ShowMaskAfter(AttentionWalkthrough& form, const AttentionSteps& steps, const Tensor& mask) {
  form.Add("weights of all on all", "softmax(q kᵀ / √d_k)",
           MatrixValues(steps.softmax, form.ByTokens()),
           "As before; the upper right half is knowledge of the future.");
  const StepTensor struck(steps.softmax.shape());
  ApplyMask(steps.softmax, mask, 0, struck.tensor());
  form.Add("weights with the future struck out", "weights · mask",
           Hidden(struck.tensor(), mask, form.ByTokens()),
           "Zeros where the mask is: but now the rows add up to less than 1.");
  form.Add("renormalised weights", "weights / Σ weights, row by row",
           Hidden(steps.weights, mask, form.ByTokens()),
           "Divided by its sum each row adds up to 1 again; nothing of the future is left, since "
           "the sum of the softmax that knew it cancels.");
}

void ShowMaskBefore(AttentionWalkthrough& form, const AttentionSteps& steps,
                    const AttentionSteps& after, const Tensor& mask) {
  form.Add("masked scores", "scores = q kᵀ / √d_k, −∞ where masked",
           MatrixValues(steps.masked, form.ByTokens()),
           "The shorter way: exp(−∞) = 0, so that softmax itself leaves the future out.");
  form.Add("weights", "weights = softmax(masked scores)",
           Hidden(steps.weights, mask, form.ByTokens()),
           "One pass less and no division by a small sum: this is how models do it.");
  const int64_t row = std::min<int64_t>(4, form.T() - 1);
  form.Add(fmt::format("both ways for “{}”", form.Token(row)), "exp(s) / Σ seen exp(s), either way",
           StackedValues({RowOf(after.weights, row), RowOf(steps.weights, row)},
                         {.rows = {"mask after", "mask before"}, .columns = form.Tokens()}),
           "The two agree to the last digits that float32 has.", FigureKind::kNone);
}

void ShowDropout(AttentionWalkthrough& form, StepwiseAttention& attention,
                 const AttentionParams& params, const Tensor& mask) {
  const double p = form.topic().dropout;
  attention.options().dropout = {
      .p = p, .seed = form.seed(), .stream = RngStream(RngPurpose::kDropout)};
  attention.Forward(params, form.x());
  form.Add("weights after dropout",
           fmt::format("kept weights · 1 / (1 − p),  p = {:g}: times {:.4g}", p, 1 / (1 - p)),
           Hidden(attention.steps().kept, mask, form.ByTokens()),
           "While it learns, a model forgets each weight with probability p, lest it rely on one; "
           "the others grow so that the sum stays the same in the mean.");
  form.Add("context after dropout", "context = kept weights v",
           MatrixValues(attention.steps().context, form.ByToken(Numbered(kOut, "c"))),
           "Other tokens are left out in every step of training; when the model writes, nothing is "
           "dropped.");
}

}  // namespace

void ExplainCausal(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 789, walk);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = kOut};
  const AttentionWeights weights = form.Drawn(sizes);
  StepwiseAttention after =
      CausalAttention(backend, sizes, 1, form.T(), {.mask_order = MaskOrder::kAfterSoftmax});
  after.Forward(weights.params(), form.x());
  StepwiseAttention before = CausalAttention(backend, sizes, 1, form.T());
  before.Forward(weights.params(), form.x());
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());

  form.Section("Causal attention: no look ahead");
  form.Add("causal mask", "mask[t, s] = 1 where s ≤ t", MaskValues(mask.tensor(), form.ByTokens()),
           "A model that learns to say the next token must not see it: each token may attend to "
           "itself and to what came before.");
  ShowMaskAfter(form, after.steps(), mask.tensor());
  ShowMaskBefore(form, before.steps(), after.steps(), mask.tensor());
  form.Add("context", "context = weights v",
           MatrixValues(before.steps().context, form.ByToken(Numbered(kOut, "c"))),
           "The first token has only itself to look at: its context is its own value.");
  ShowDropout(form, before, weights.params(), mask.tensor());
}

}  // namespace folio
