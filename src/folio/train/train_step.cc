#include "folio/train/train_step.h"

#include <algorithm>
#include <cmath>

namespace folio {
namespace {

int64_t BlocksOf(const Shards::Piece& piece) {
  return (piece.size() + Shards::kBlock - 1) / Shards::kBlock;
}

PassOptions OptionsFor(const GptWeights& weights, PassOptions options) {
  options.lora = weights.table().lora();
  options.shard = weights.table().shard();
  return options;
}

// Ranks that share the data get most of their weights from each other, and round them in products.
bool HasLowWeights(const PassOptions& options, int ranks) {
  return ranks == 1 && options.dtype == Dtype::kBF16 && options.preferences.low_weights;
}

}  // namespace

TrainStep::TrainStep(Backend& backend, GptWeights& weights, int64_t B, int64_t T,
                     const PassOptions& options, const Parallelism& parallelism,
                     const OptimizerSettings& optimizer)
    : backend_(backend),
      weights_(weights),
      data_(parallelism.data()),
      tensor_(TensorCommunicator(parallelism.group, parallelism.tensor)),
      shards_(BucketsOf(weights.table()), data_.size()),
      pass_(backend, weights.config(), B, T, PassKind::kTraining, OptionsFor(weights, options)),
      sum_(backend, weights.table(), shards_, weights.flat().dtype(), parallelism),
      optimizer_(backend, optimizer, weights.flat().dtype(), shards_, data_.rank()) {
  FOLIO_CHECK(weights.flat().dtype() == options.number(), "weights are of another dtype");
  const Shard& shard = weights.table().shard();
  FOLIO_CHECK(
      shard.count == tensor_.communicator().size() && shard.index == tensor_.communicator().rank(),
      "another rank's shard of the model");
  if (!data_.alone()) gather_.emplace(data_, shards_, weights.flat());
  const MemoryPlan::Id sums =
      sums_plan_.AddMirrored("sums", Dtype::kF64, {parallelism.micro_batches + 1});
  const MemoryPlan::Id block_sums =
      sums_plan_.AddMirrored("block_sums", Dtype::kF64, {shards_.BlocksOf(data_.rank())});
  sums_plan_.Place();
  sums_arena_ = Arena(sums_plan_, backend.memory());
  sums_ = sums_arena_.GetMirror(sums_plan_, sums);
  block_sums_ = sums_arena_.GetMirror(sums_plan_, block_sums);
  if (HasLowWeights(options.On(backend), data_.size())) BindLowWeights();
  std::vector<size_t> next;
  size_t blocks = 0;
  for (int r = 0; r < shards_.ranks(); ++r) {
    next.push_back(blocks);
    blocks += static_cast<size_t>(shards_.BlocksOf(r));
  }
  all_block_sums_.resize(blocks);
  for (size_t b = 0; b < shards_.buckets().size(); ++b) {
    std::vector<size_t>& order = shards_.buckets()[b].shared ? shared_blocks_ : block_order_;
    for (int r = 0; r < shards_.ranks(); ++r) {
      size_t& at = next[static_cast<size_t>(r)];
      for (int64_t i = 0; i < BlocksOf(shards_.PieceOf(b, r)); ++i) order.push_back(at++);
    }
  }
  pass_.set_gate(this);
  if (!tensor_.communicator().alone()) pass_.set_group(&tensor_);
}

// The head's matrix is in BF16 too where it is the embeddings', which are read as they are.
void TrainStep::BindLowWeights() {
  const ParamTable& table = weights_.table();
  low_.emplace(table, Dtype::kBF16, ParamPart::kAll, backend_.memory());
  std::vector<Tensor> tensors(weights_.tensors().begin(), weights_.tensors().end());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (table.params()[i].kind == ParamKind::kLinear) tensors[i] = low_->tensors()[i];
  }
  low_params_ = BindParams(table, tensors);
  low_params_.head = low_->params().head;
  low_params_.head_bias = weights_.params().head_bias;
}

MemoryPlan TrainStep::Plan(const GptConfig& config, int64_t B, int64_t T,
                           const PassOptions& options, const PlannedParallelism& parallelism,
                           const OptimizerSettings& optimizer) {
  MemoryPlan plan;
  const ParamTable table(config, options.lora, options.shard, options.row_multiple);
  const Shards shards(BucketsOf(table), parallelism.ranks);
  const Shape weights = {table.flat_size()};
  parallelism.ranks > 1 ? plan.AddMirrored("weights", options.number(), weights)
                        : plan.Add("weights", options.number(), weights);
  if (HasLowWeights(options, parallelism.ranks)) plan.Add("weights.low", Dtype::kBF16, weights);
  GradientSum::AddTo(plan, config, shards, options.number(), parallelism);
  Optimizer::AddTo(plan, optimizer, options.number(), shards);
  if (!options.shard.whole()) plan.Add("sums.received", options.number(), {B * T, config.n_embd});
  const MemoryPlan pass = GptPass::Plan(config, B, T, PassKind::kTraining, options);
  for (const MemoryPlan::Buffer& buffer : pass.buffers()) {
    const MemoryPlan::Id id = buffer.mirrored
                                  ? plan.AddMirrored(buffer.name, buffer.dtype, buffer.shape)
                                  : plan.Add(buffer.name, buffer.dtype, buffer.shape);
    plan.SetLife(id, buffer.first_tick, buffer.last_tick);
  }
  plan.Place();
  return plan;
}

RecomputeBytes CompareRecompute(const GptConfig& config, int64_t B, int64_t T,
                                PassOptions options) {
  const auto bytes = [&](bool recompute) {
    options.recompute = recompute;
    return TrainStep::Plan(config, B, T, options).arena_bytes();
  };
  return {.without = bytes(false), .with = bytes(true)};
}

void TrainStep::Begin() {
  sum_.Begin();
  accumulated_ = known_ = 0;
}

void TrainStep::Accumulate(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                           double scale, DropoutContext dropout, std::span<const int32_t> begins) {
  if (low_ && !low_is_current_) {
    const Shape row = {1, weights_.flat().count()};
    backend_.Run(
        ResidualBackward{.d_out = weights_.flat().Reshape(row), .d_x = low_->flat().Reshape(row)});
    low_is_current_ = true;
  }
  if (pass_.packed()) pass_.set_begins(begins);
  pass_.Forward(params(), inputs, dropout);
  const GptParams& into = sum_.BeginMicroBatch();
  pass_.Backward(params(), targets, scale, into, sum_.adds(),
                 sums_.device.Slice(accumulated_, accumulated_ + 1));
  accumulated_ += 1;
}

std::span<const double> TrainStep::Losses() {
  if (known_ < accumulated_) sums_.Fetch();
  known_ = accumulated_;
  return {sums_.host.host<double>(), static_cast<size_t>(accumulated_)};
}

void TrainStep::BeforeForward(int64_t layer) {
  if (gather_) gather_->Wait(layer);
}

void TrainStep::WaitForWeights() {
  if (gather_) gather_->WaitForAll();
}

double TrainStep::Norm() {
  if (sum_.empty()) sum_.Clear();
  sum_.Finish();
  int64_t block = 0;
  for (size_t b = 0; b < shards_.buckets().size(); ++b) {
    const Shards::Piece piece = shards_.PieceOf(b, data_.rank());
    const int64_t blocks = BlocksOf(piece);
    if (blocks == 0) continue;
    backend_.Run(SumOfSquares{.x = sum_.sum().Slice(piece.offset, piece.offset + piece.size()),
                              .out = block_sums_.device.Slice(block, block + blocks),
                              .block = Shards::kBlock});
    block += blocks;
  }
  if (data_.alone() && tensor_.communicator().alone()) {
    const int64_t last = sums_.device.count() - 1;
    backend_.Run(SumOfElements{.x = block_sums_.device, .out = sums_.device.Slice(last, last + 1)});
    sums_.Fetch();
    known_ = accumulated_;
    return std::sqrt(sums_.host.host<double>()[last]);
  }
  block_sums_.Fetch();
  const std::span<double> mine_of_blocks(block_sums_.host.host<double>(),
                                         static_cast<size_t>(block));
  // The place of the sums of a rank, the ranks' one after the other.
  const auto sums_of = [&](int rank) {
    size_t before = 0;
    for (int r = 0; r < rank; ++r) before += static_cast<size_t>(shards_.BlocksOf(r));
    return std::span(all_block_sums_).subspan(before, static_cast<size_t>(shards_.BlocksOf(rank)));
  };
  Exchange all([&](int) { return mine_of_blocks; }, sums_of);
  data_.Do(all);
  std::ranges::copy(mine_of_blocks, sums_of(data_.rank()).begin());
  const auto sum_of = [&](const std::vector<size_t>& order) {
    double sum = 0;
    for (const size_t i : order) sum += all_block_sums_[i];
    return sum;
  };
  const double mine = sum_of(block_order_);
  if (tensor_.communicator().alone()) return std::sqrt(mine);
  // Parameters that all shards have count once.
  double sum = sum_of(shared_blocks_);
  for (const auto& part : tensor_.communicator().GatherNumbers(std::vector<double>{mine}))
    sum += part[0];
  return std::sqrt(sum);
}

void TrainStep::Update(double lr, double clip, int64_t step, double norm) {
  const double scale = ClipScale(norm, clip);
  const auto update = [&](size_t b) {
    const Shards::Piece piece = shards_.PieceOf(b, data_.rank());
    if (piece.size() == 0) return;
    optimizer_.Step({.lr = lr, .step = step, .grad_scale = scale}, b,
                    weights_.flat().Slice(piece.begin, piece.end),
                    sum_.sum().Slice(piece.offset, piece.offset + piece.size()),
                    low_ ? low_->flat().Slice(piece.begin, piece.end) : Tensor());
  };
  if (!gather_) {
    for (size_t b = 0; b < shards_.buckets().size(); ++b) update(b);
    return;
  }
  for (const size_t b : gather_->order()) {
    update(b);
    gather_->Begin(b);
  }
}

double TrainStep::Finish(double lr, double clip, int64_t step) {
  const double norm = Norm();
  Update(lr, clip, step, norm);
  return norm;
}

const Tensor& TrainStep::Gradient() {
  if (data_.alone()) return sum_.sum();
  if (!whole_gradient_) {
    whole_gradient_.emplace(weights_.table(), weights_.dtype(), ParamPart::kTrained,
                            backend_.memory());
  }
  const Tensor& flat = whole_gradient_->flat();
  WeightGather gather(data_, shards_, flat);
  for (const size_t b : gather.order()) {
    const Shards::Piece piece = shards_.PieceOf(b, data_.rank());
    const Tensor mine = sum_.sum().Slice(piece.offset, piece.offset + piece.size());
    CopyElements(mine, flat.Slice(piece.begin, piece.end));
    gather.Begin(b);
  }
  gather.WaitForAll();
  return flat;
}

}  // namespace folio
