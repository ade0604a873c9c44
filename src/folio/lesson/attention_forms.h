#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/torch_rng.h"
#include "folio/lesson/attention_weights.h"
#include "folio/lesson/step_values.h"
#include "folio/lesson/topics.h"

namespace folio {

// What the forms of attention have in common: the six tokens, where random weights come from, the
// walk that grows.
class FormWalk {
 public:
  // `usual_seed` where the topic gives none.
  FormWalk(Backend& backend, const AttentionTopic& topic, uint64_t usual_seed, Walk& walk);

  Backend& backend() { return backend_; }
  const AttentionTopic& topic() const { return topic_; }
  uint64_t seed() const { return seed_; }

  static constexpr int64_t kTokens = 6, kChannels = 3;
  static constexpr int64_t kJourney = 1;  // the token that is followed
  const Tensor& x() const { return x_.tensor(); }
  static std::vector<std::string> Tokens();
  // Tokens down, `columns` across.
  static StepLabels ByToken(std::vector<std::string> columns = {}, std::string column_axis = {});
  // Queries down, keys across.
  static StepLabels ByTokens();

  // Weights of these sizes, the next draws of the walk's generator.
  AttentionWeights Drawn(const AttentionSizes& sizes,
                         AttentionDraws draws = AttentionDraws::kLinear);
  void DrawNormal(std::span<float> out);

  void Section(std::string heading) { walk_.Section(std::move(heading)); }
  void Add(std::string name, std::string formula, StepValues values, std::string why,
           FigureKind figure = FigureKind::kHeatmap) {
    walk_.Add(std::move(name), std::move(formula), std::move(values), std::move(why), figure);
  }

 private:
  Backend& backend_;
  const AttentionTopic& topic_;
  uint64_t seed_;
  std::optional<TorchRng> torch_;
  uint64_t drawn_ = 0;
  StepTensor x_;
  Walk& walk_;
};

// Tokens, their elements, and the elements of a head's result.
inline constexpr int64_t kT = FormWalk::kTokens, kC = FormWalk::kChannels, kOut = 2;

// Rows [first, first + rows) of x as a matrix: its last dimension across, all others down.
Tensor RowsOf(const Tensor& x, int64_t first, int64_t rows = 1);
// A row of x.
std::vector<double> RowOf(const Tensor& x, int64_t row);
// Matrices of equally many rows, side by side.
StepValues SideBySide(std::initializer_list<Tensor> parts, StepLabels labels);
// 1 where a u8 mask allows, else masked.
StepValues MaskValues(const Tensor& mask, StepLabels labels);
// "q 0", "q 1", "k 0", ...
std::vector<std::string> ColumnsOf(std::initializer_list<std::string> parts, int64_t each);
// A tensor of weights, or of masked scores, of which `mask` hides a part.
StepValues Hidden(const Tensor& x, const Tensor& mask, StepLabels labels);

void WalkNoWeights(const AttentionTopic& topic, Backend& backend, Walk& walk);
void WalkSingleHead(const AttentionTopic& topic, Backend& backend, Walk& walk);
void WalkCausal(const AttentionTopic& topic, Backend& backend, Walk& walk);
void WalkStacked(const AttentionTopic& topic, Backend& backend, Walk& walk);
void WalkSplit(const AttentionTopic& topic, Backend& backend, Walk& walk);
void WalkCross(const AttentionTopic& topic, Backend& backend, Walk& walk);
void WalkGrouped(const AttentionTopic& topic, Backend& backend, Walk& walk);

}  // namespace folio
