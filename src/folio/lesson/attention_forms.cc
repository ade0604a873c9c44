#include "folio/lesson/attention_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

const TokenVectors& Journey() {
  static const TokenVectors journey = {
      .labels = {"Your", "journey", "starts", "with", "one", "step"},
      .numbers = {0.43F, 0.15F, 0.89F, 0.55F, 0.87F, 0.66F, 0.57F, 0.85F, 0.64F, 0.22F, 0.58F,
                  0.33F, 0.77F, 0.25F, 0.10F, 0.05F, 0.80F, 0.55F}};
  return journey;
}

struct Form {
  const char* name;
  void (*walk)(const AttentionTopic& topic, Backend& backend, Report& walk);
};

constexpr Form kForms[] = {
    {"no-weights", ExplainNoWeights}, {"single-head", ExplainSingleHead},
    {"causal", ExplainCausal},        {"stacked", ExplainStacked},
    {"split", ExplainSplit},          {"cross", ExplainCross},
    {"grouped", ExplainGrouped},
};

}  // namespace

AttentionWalkthrough::AttentionWalkthrough(Backend& backend, const AttentionTopic& topic,
                                           uint64_t usual_seed, Report& walk)
    : backend_(backend),
      topic_(topic),
      seed_(topic.seed.value_or(usual_seed)),
      tokens_(topic.vectors.value_or(Journey()).labels),
      x_({topic.vectors.value_or(Journey()).T(), topic.vectors.value_or(Journey()).C()},
         topic.vectors.value_or(Journey()).numbers),
      walk_(walk) {
  if (topic.torch_rng) torch_.emplace(seed_);
}

MatrixLabels AttentionWalkthrough::ByToken(std::vector<std::string> columns,
                                           std::string column_axis) const {
  return {.rows = Tokens(),
          .columns = std::move(columns),
          .row_axis = "token",
          .column_axis = std::move(column_axis)};
}

MatrixLabels AttentionWalkthrough::ByTokens() const {
  return {.rows = Tokens(), .columns = Tokens(), .row_axis = "query", .column_axis = "key"};
}

AttentionWeights AttentionWalkthrough::Drawn(const AttentionSizes& sizes, AttentionDraws draws) {
  AttentionWeights weights(sizes);
  if (torch_) {
    DrawAttention(weights, draws, *torch_);
  } else {
    DrawAttention(weights, draws, seed_, drawn_++);
  }
  return weights;
}

void AttentionWalkthrough::DrawNormal(std::span<float> out) {
  if (torch_) {
    torch_->Normal(out, 0, 1);
    return;
  }
  const CounterRng rng(seed_, RngStream(RngPurpose::kInit, /*a=*/drawn_++, /*b=*/1));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(rng.Normal(i));
}

Tensor RowsOf(const Tensor& x, int64_t first, int64_t rows) {
  const int64_t columns = x.shape().back();
  return x.Reshape({x.count() / columns, columns}).Slice(first, first + rows);
}

std::vector<double> RowOf(const Tensor& x, int64_t row) {
  return Doubles(RowsOf(x, row));
}

Matrix SideBySide(std::initializer_list<Tensor> parts, MatrixLabels labels) {
  std::vector<std::vector<double>> rows(static_cast<size_t>(parts.begin()->dim(0)));
  for (const Tensor& part : parts) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<double> more = RowOf(part, static_cast<int64_t>(r));
      rows[r].insert(rows[r].end(), more.begin(), more.end());
    }
  }
  return StackedValues(rows, std::move(labels));
}

Matrix MaskValues(const Tensor& mask, MatrixLabels labels) {
  const std::vector<float> ones(static_cast<size_t>(mask.count()), 1);
  const int64_t columns = mask.shape().back();
  const StepTensor all({mask.count() / columns, columns}, ones);
  Matrix values = Hidden(all.tensor(), mask, std::move(labels));
  values.digits = 0;
  return values;
}

std::vector<std::string> ColumnsOf(std::initializer_list<std::string> parts, int64_t each) {
  std::vector<std::string> columns;
  for (const std::string& part : parts) {
    for (const std::string& column : Numbered(each, part + " ")) columns.push_back(column);
  }
  return columns;
}

Matrix Hidden(const Tensor& x, const Tensor& mask, MatrixLabels labels) {
  Matrix values = MatrixValues(x, std::move(labels));
  MarkMasked(values, {mask.data<uint8_t>(), static_cast<size_t>(mask.count())});
  return values;
}

std::vector<std::string> AttentionForms() {
  std::vector<std::string> names;
  for (const Form& form : kForms) names.emplace_back(form.name);
  return names;
}

Report ExplainAttention(Backend& backend, const AttentionTopic& topic) {
  const std::vector<std::string> names = AttentionForms();
  if (topic.form && std::ranges::find(names, *topic.form) == names.end()) {
    throw UsageError("unknown form of attention '" + *topic.form + "'", {},
                     "one of " + Join(names, ", "));
  }
  Report walk{.topic = "attention",
              .title = "Attention, step by step",
              .intro = std::string(topic.vectors
                                       ? fmt::format("Your tokens: {}, each a vector of length {}.",
                                                     topic.vectors->T(), topic.vectors->C())
                                       : "Six tokens, “Your journey starts with one step”, each a "
                                         "vector of three numbers.") +
                       " Attention makes a new vector for each token out of all of them. "
                       "Each form below adds one idea to the one before it; every number was "
                       "computed just now by the code that models run on."};
  for (const Form& form : kForms) {
    if (!topic.form || *topic.form == form.name) form.walk(topic, backend, walk);
  }
  return walk;
}

}  // namespace folio
