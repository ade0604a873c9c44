#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/rng.h"
#include "folio/lesson/attention_weights.h"
#include "folio/lesson/step_values.h"
#include "folio/lesson/topics.h"

namespace folio {

// AttentionWalkthrough holds what the forms of attention have in common: the tokens, six where the
// topic has no vectors, the source of random weights, and the walk that grows.
class AttentionWalkthrough {
 public:
  // `usual_seed` where the topic gives none.
  AttentionWalkthrough(Backend& backend, const AttentionTopic& topic, uint64_t usual_seed,
                       Report& walk);

  Backend& backend() { return backend_; }
  const AttentionTopic& topic() const { return topic_; }
  uint64_t seed() const { return seed_; }

  const Tensor& x() const { return x_.tensor(); }  // (T,C)
  int64_t T() const { return x().dim(0); }
  int64_t C() const { return x().dim(1); }
  bool own() const { return topic_.vectors.has_value(); }  // not the six tokens
  const std::vector<std::string>& Tokens() const { return tokens_; }
  const std::string& Token(int64_t t) const { return tokens_[static_cast<size_t>(t)]; }
  // The token that is followed: the second, if there is one.
  int64_t followed() const { return T() > 1 ? 1 : 0; }
  const std::string& name() const { return Token(followed()); }
  // Tokens down, `columns` across.
  MatrixLabels ByToken(std::vector<std::string> columns = {}, std::string column_axis = {}) const;
  // Queries down, keys across.
  MatrixLabels ByTokens() const;

  // Weights of these sizes, the next draws of the walk's generator.
  AttentionWeights Drawn(const AttentionSizes& sizes,
                         AttentionDraws draws = AttentionDraws::kLinear);
  void DrawNormal(std::span<float> out);

  void Section(std::string heading) { walk_.Section(std::move(heading)); }
  void Add(std::string name, std::string formula, Matrix values, std::string why,
           FigureKind figure = FigureKind::kHeatmap) {
    walk_.Add(std::move(name), std::move(formula), std::move(values), std::move(why), figure);
  }

 private:
  Backend& backend_;
  const AttentionTopic& topic_;
  uint64_t seed_;
  std::optional<TorchRng> torch_;
  uint64_t drawn_ = 0;
  std::vector<std::string> tokens_;
  StepTensor x_;
  Report& walk_;
};

inline constexpr int64_t kOut = 2;  // elements of a head's result

// Rows [first, first + rows) of x as a matrix: its last dimension across, all others down.
Tensor RowsOf(const Tensor& x, int64_t first, int64_t rows = 1);
// A row of x.
std::vector<double> RowOf(const Tensor& x, int64_t row);
// Matrices of equally many rows, side by side.
Matrix SideBySide(std::initializer_list<Tensor> parts, MatrixLabels labels);
// 1 where a u8 mask allows, else masked.
Matrix MaskValues(const Tensor& mask, MatrixLabels labels);
// "q 0", "q 1", "k 0", ...
std::vector<std::string> ColumnsOf(std::initializer_list<std::string> parts, int64_t each);
// A tensor of weights, or of masked scores, of which `mask` hides a part.
Matrix Hidden(const Tensor& x, const Tensor& mask, MatrixLabels labels);

void ExplainNoWeights(const AttentionTopic& topic, Backend& backend, Report& walk);
void ExplainSingleHead(const AttentionTopic& topic, Backend& backend, Report& walk);
void ExplainCausal(const AttentionTopic& topic, Backend& backend, Report& walk);
void ExplainStacked(const AttentionTopic& topic, Backend& backend, Report& walk);
void ExplainSplit(const AttentionTopic& topic, Backend& backend, Report& walk);
void ExplainCross(const AttentionTopic& topic, Backend& backend, Report& walk);
void ExplainGrouped(const AttentionTopic& topic, Backend& backend, Report& walk);

}  // namespace folio
