#include "folio/train/optimizer.h"

#include <algorithm>

namespace folio {
namespace {

// The state of a method: the prefix of its buffers, its arrays, and both in words.
struct MethodState {
  std::string_view prefix;
  std::array<std::string_view, 2> arrays;
  std::string_view description;
};

const MethodState& StateOf(const AdamW&) {
  static constexpr MethodState kState = {"adamw.", {"m", "v"}, "two for AdamW"};
  return kState;
}

}  // namespace

OptimizerSettings::OptimizerSettings(const AdamW& all) {
  methods.fill(all);
  for (const ParamGroup group : kParamGroups) {
    if (!IsDecayed(group)) methods[static_cast<size_t>(group)].weight_decay = 0;
  }
}

OptimizerSettings OptimizerSettingsOf(const TrainConfig& config) {
  return AdamW{.beta1 = config.beta1,
               .beta2 = config.beta2,
               .eps = config.eps,
               .weight_decay = config.weight_decay};
}

double ClipScale(double norm, double max_norm) {
  constexpr double kTiny = 1e-6;  // keeps the quotient below 1 when norm is just above max_norm
  return max_norm > 0 && norm > max_norm ? max_norm / (norm + kTiny) : 1.0;
}

bool StateArray::Covers(const ParamInfo& info) const {
  return info.trained && shards.begin() <= info.offset && info.offset < shards.end();
}

Tensor StateArray::View(const ParamInfo& info) const {
  const int64_t begin = info.offset - shards.begin();
  return tensor.Slice(begin, begin + info.shape.count()).Reshape(info.shape);
}

std::vector<StateArray> StateLayout(const OptimizerSettings& settings, const Shards& shards) {
  const std::span<const ShardBucket> buckets = shards.buckets();
  const auto state = [&](size_t b) { return &StateOf(settings.method(buckets[b].group)); };
  std::vector<StateArray> arrays;
  for (size_t first = 0, last = 0; first < buckets.size(); first = last) {
    while (last < buckets.size() && state(last) == state(first)) ++last;
    const Shards part({buckets.begin() + first, buckets.begin() + last}, shards.ranks());
    for (const std::string_view name : state(first)->arrays) {
      arrays.push_back({.name = std::string(name),
                        .buffer = std::string(state(first)->prefix).append(name),
                        .first = first,
                        .shards = part});
    }
  }
  return arrays;
}

int64_t StateElements(const OptimizerSettings& settings, const ParamTable& table) {
  int64_t elements = 0;
  const Shards alone(BucketsOf(table), 1);
  for (const StateArray& array : StateLayout(settings, alone)) elements += array.shards.SizeOf(0);
  return elements;
}

bool IsStateBuffer(std::string_view buffer) {
  return buffer.starts_with(StateOf(AdamW()).prefix);
}

std::string DescribeState(const OptimizerSettings& settings) {
  return std::string(StateOf(settings.methods.front()).description);
}

int64_t UpdatePasses(const OptimizerSettings& settings, ParamGroup group) {
  return 3 + 2 * std::ssize(StateOf(settings.method(group)).arrays);
}

Optimizer::Optimizer(Backend& backend, const OptimizerSettings& settings, Dtype dtype,
                     const Shards& shards, int rank)
    : backend_(backend),
      settings_(settings),
      shards_(shards),
      rank_(rank),
      state_(StateLayout(settings, shards)) {
  AddTo(plan_, settings, dtype, shards, rank);
  plan_.Place();
  arena_ = Arena(plan_, backend.memory());
  for (size_t i = 0; i < state_.size(); ++i) {
    state_[i].tensor = arena_.Get(plan_, static_cast<MemoryPlan::Id>(i));
  }
}

void Optimizer::AddTo(MemoryPlan& plan, const OptimizerSettings& settings, Dtype dtype,
                      const Shards& shards, int rank) {
  for (const StateArray& array : StateLayout(settings, shards)) {
    plan.Add(array.buffer, dtype, {array.shards.SizeOf(rank)});
  }
}

void Optimizer::Step(const OptimizerStep& step, size_t bucket, const Tensor& param,
                     const Tensor& grad, const Tensor& low) {
  const auto state = [&](std::string_view name) {
    const StateArray& array = *std::ranges::find_if(state_, [&](const StateArray& x) {
      return x.name == name && x.first <= bucket && bucket - x.first < x.shards.buckets().size();
    });
    const Shards::Piece piece = array.shards.PieceOf(bucket - array.first, rank_);
    return array.tensor.Slice(piece.offset, piece.offset + piece.size());
  };
  const AdamW& adamw = settings_.method(shards_.buckets()[bucket].group);
  backend_.Run(AdamWUpdate{.param = param,
                           .grad = grad,
                           .m = state("m"),
                           .v = state("v"),
                           .low = low,
                           .lr = step.lr,
                           .beta1 = adamw.beta1,
                           .beta2 = adamw.beta2,
                           .eps = adamw.eps,
                           .weight_decay = adamw.weight_decay,
                           .step = step.step,
                           .grad_scale = step.grad_scale});
}

}  // namespace folio
