#include <fmt/format.h>

#include "folio/lesson/attention_forms.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

// `weights` are those of the head `number`, (T,T), before the mask hides them.
void AddWeights(AttentionWalkthrough& form, int number, const Tensor& weights, const Tensor& mask,
                std::string why) {
  form.Add(fmt::format("weights of head {}", number), "softmax(q kᵀ / √D), −∞ where masked",
           Hidden(weights, mask, form.ByTokens()), std::move(why));
}

// Two causal heads of 2 elements, drawn one after the other.
std::vector<AttentionWeights> DrawHeads(AttentionWalkthrough& form) {
  std::vector<AttentionWeights> heads;
  for (int h = 0; h < 2; ++h) {
    heads.push_back(form.Drawn({.d_in = form.C(), .d_out = 2}));
  }
  return heads;
}

std::vector<StepwiseAttention> RunStack(AttentionWalkthrough& form,
                                        std::span<const AttentionWeights> heads) {
  std::vector<StepwiseAttention> stack =
      StackedHeads(form.backend(), heads[0].sizes(), std::ssize(heads), 1, form.T());
  for (size_t h = 0; h < stack.size(); ++h) stack[h].Forward(heads[h].params(), form.x());
  return stack;
}

MatrixLabels ByHeadElement(const AttentionWalkthrough& form, int64_t each) {
  return form.ByToken(ColumnsOf({"head 0:", "head 1:"}, each));
}

// The stack's weights in one layer, and what it says about the last token.
void ShowJoined(AttentionWalkthrough& form) {
  const std::vector<AttentionWeights> heads = DrawHeads(form);
  const StepTensor stacked = SideBySide(RunStack(form, heads));
  const AttentionWeights joined = JoinHeads(heads);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());
  StepwiseAttention split =
      MultiHeadAttention(form.backend(), joined.sizes(), 1, form.T(), form.T(), {.mask = mask});
  const Tensor& out = split.Forward(joined.params(), form.x());
  const AttentionParams& params = joined.params();
  form.Add(
      "the stack's weights side by side",
      "W_q = [W_q of head 0 | W_q of head 1], W_k and W_v likewise",
      SideBySide({params.q.weight, params.k.weight, params.v.weight},
                 {.rows = Numbered(form.C(), "x"), .columns = ColumnsOf({"W_q", "W_k", "W_v"}, 4)}),
      "One large product is faster than many small ones: the heads of the stack are the "
      "columns of one matrix, which is split afterwards.");
  form.Add(
      fmt::format("“{}” by the stack and by the split layer", form.Token(form.T() - 1)),
      "concat(head 0(x), head 1(x)) = split(x)",
      StackedValues({RowOf(stacked.tensor(), form.T() - 1), RowOf(out, form.T() - 1)},
                    {.rows = {"stack", "split"}, .columns = ColumnsOf({"head 0:", "head 1:"}, 2)}),
      "The same numbers by both ways: splitting is nothing but book-keeping.", FigureKind::kNone);
}

}  // namespace

void ExplainStacked(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  const std::vector<AttentionWeights> heads = DrawHeads(form);
  const std::vector<StepwiseAttention> stack = RunStack(form, heads);
  const StepTensor out = SideBySide(stack);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());

  form.Section("Several heads, stacked");
  AddWeights(form, 0, stack[0].steps().weights, mask.tensor(),
             "The first head has W_q, W_k and W_v of its own.");
  AddWeights(form, 1, stack[1].steps().weights, mask.tensor(),
             "The second head was drawn with other numbers and looks elsewhere: each head can "
             "learn a question of its own.");
  form.Add("contexts of both, side by side", "out = concat(head 0(x), head 1(x))",
           MatrixValues(out.tensor(), ByHeadElement(form, 2)),
           "What the heads found is put side by side: 2 heads of 2 elements give 4.");
}

void ExplainSplit(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough stack_form(backend, topic, 123, walk);
  stack_form.Section("Several heads, split from one projection");
  ShowJoined(stack_form);

  AttentionWalkthrough form(backend, topic, 123, walk);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = 2, .H = 2, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());
  StepwiseAttention layer =
      MultiHeadAttention(backend, sizes, 1, form.T(), form.T(), {.mask = mask});
  const Tensor& out = layer.Forward(weights.params(), form.x());
  const Tensor& all = layer.steps().weights;
  AddWeights(form, 0, RowsOf(all, 0, form.T()), mask.tensor(),
             "A layer of d_out = 2 with 2 heads has D = d_out / H = 1 element for each; d_out must "
             "be a multiple of the heads.");
  AddWeights(form, 1, RowsOf(all, form.T(), form.T()), mask.tensor(),
             "Again the second head weighs the tokens in its own way.");
  form.Add("contexts of both heads", "concat(head 0, head 1)",
           MatrixValues(layer.steps().context, ByHeadElement(form, 1)),
           "Side by side again; so far no head knows what the other found.");
  form.Add("output", "out = concat(head 0, head 1) W_o + b_o",
           MatrixValues(out, form.ByToken(Numbered(2, "out "))),
           "The output projection mixes what the heads found into one vector: this is the layer "
           "that GPT-2 has in each block.");
}

}  // namespace folio
