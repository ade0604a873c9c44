#include "folio/train/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/dist/group.h"
#include "folio/io/model_dir.h"
#include "folio/model/lora.h"
#include "folio/train/buckets.h"

namespace folio {

namespace {

void CopyBytes(const Tensor& from, const Tensor& to) {
  std::memcpy(to.raw(), from.raw(), from.bytes());
}

// Null for "".
std::exception_ptr Unpack(const std::string& packed) {
  return packed.empty() ? nullptr : std::make_exception_ptr(UnpackError(packed));
}

// The error of run(), packed; "" if it has none.
template <class F>
std::string ErrorOfRunning(const F& run) {
  try {
    run();
    return "";
  } catch (const Error& error) {
    return PackError(error);
  }
}

}  // namespace

struct CheckpointWriter::Copy {
  explicit Copy(const ParamTable& table) : weights(table) {
    for (const std::string_view name : Optimizer::kState) {
      state.push_back(std::make_unique<GptWeights>(table, weights.dtype(), ParamPart::kTrained));
      named.push_back({std::string(name), state.back()->flat()});
    }
  }

  GptWeights weights;
  std::vector<std::unique_ptr<GptWeights>> state;  // the optimizer's arrays, in their order
  std::vector<NamedTensor> named;                  // views of them
};

CheckpointWriter::CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights,
                                   const Optimizer& optimizer, const OptimizerShards& shards,
                                   bool beside)
    : checkpoints_(std::move(checkpoints)),
      weights_(weights),
      optimizer_(optimizer),
      shards_(shards),
      beside_(beside) {}

CheckpointWriter::~CheckpointWriter() = default;

// Returns whether there is a copy to write into, which is made at the first checkpoint and kept.
bool CheckpointWriter::MakeRoom() {
  if (!beside_) return false;
  if (copy_ != nullptr) return true;
  constexpr uint64_t kSpare = 4;  // parts of what is free that stay free
  const ParamTable table = weights_.table().Whole();
  constexpr int64_t kArrays = std::ssize(Optimizer::kState);
  const uint64_t bytes =
      DtypeBytes(weights_.dtype(), table.flat_size() + kArrays * table.trained_size());
  const uint64_t available = ThisMachinesMemory().available;
  bool room = available == 0 || bytes <= available - available / kSpare;
  try {
    if (room) copy_ = std::make_unique<Copy>(table);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    room = false;
  }
  if (room || shards_.group != nullptr) return room;
  beside_ = false;
  LogWarning("no memory for a copy of weights and moments: training waits for each checkpoint");
  return false;
}

// Begins to write this rank's pieces of the optimizer's state, if all ranks see the file.
bool CheckpointWriter::BeginPieces() {
  Group& group = *shards_.group;
  // A shard of a model has no place of its own in the file.
  if (!shards_.same_files || !weights_.table().shard().whole()) return false;
  if (!file_) file_.emplace(checkpoints_.run() / kMomentsFile, weights_);
  const std::string failed =
      group.Broadcast(first() ? ErrorOfRunning([&] { file_->Create(); }) : "");
  if (failed_ = Unpack(failed); failed_ != nullptr) return false;
  for (const auto& here : GatherNumbers(group, std::vector<uint8_t>{file_->IsHere()})) {
    shards_.same_files = shards_.same_files && here[0] != 0;
  }
  if (!shards_.same_files) return false;
  own_state_.resize(Optimizer::kState.size());
  std::vector<NamedTensor> state;
  for (size_t i = 0; i < own_state_.size(); ++i) {
    const NamedTensor& array = optimizer_.State()[i];
    const auto* begin = array.tensor.data<float>();
    own_state_[i].assign(begin, begin + array.tensor.count());
    state.push_back({array.name, Tensor(own_state_[i].data(), {array.tensor.count()})});
  }
  pieces_ = std::async(std::launch::async, [this, rank = group.rank(), state] {
    file_->Write(*shards_.shards, rank, state);
  });
  return true;
}

// Brings the pieces of all ranks to the first.
void CheckpointWriter::GatherState() {
  for (size_t i = 0; i < optimizer_.State().size(); ++i) {
    GatherPieces(*shards_.group, *shards_.shards, optimizer_.State()[i].tensor,
                 copy_ ? copy_->named[i].tensor : Tensor());
  }
}

// Brings the weights of a model in parts to the first rank, and the optimizer's state if `state`.
void CheckpointWriter::GatherWholeModel(bool state) {
  const auto gather = [&](const Tensor& mine, PartHeld held, const GptWeights* whole) {
    GatherParts(*shards_.group, weights_.table(), mine, held, whole);
  };
  gather(weights_.flat(), PartHeld::kAll, copy_ ? &copy_->weights : nullptr);
  if (!state) return;
  for (size_t i = 0; i < optimizer_.State().size(); ++i) {
    gather(optimizer_.State()[i].tensor, PartHeld::kPieces,
           copy_ ? copy_->state[i].get() : nullptr);
  }
}

void CheckpointWriter::Begin(const TrainState& state, bool best, bool last, int64_t previous) {
  began_ = SteadySeconds();
  under_way_ = {.step = state.step, .best = best, .last = last};
  const bool beside = first() && MakeRoom();
  bool in_pieces = false;
  if (Group* group = shards_.group; group != nullptr) {
    if (group->Broadcast(beside ? "room" : "none") == "none") {
      failed_ = std::make_exception_ptr(
          RuntimeError("the first rank has no memory for a copy of weights and moments", "",
                       "use fewer ranks on its machine, or a smaller --batch"));
      return;
    }
    if (last) in_pieces = BeginPieces();
    if (failed_ != nullptr) return;
    const bool whole = weights_.table().shard().whole();
    if (!whole) GatherWholeModel(/*state=*/last);
    if (whole && last && !in_pieces) GatherState();
    if (!first()) return;
  }
  if (beside && weights_.table().shard().whole()) {
    CopyBytes(weights_.flat(), copy_->weights.flat());
  }
  if (beside && shards_.group == nullptr) {
    for (size_t i = 0; i < copy_->named.size(); ++i) {
      CopyBytes(optimizer_.State()[i].tensor, copy_->named[i].tensor);
    }
  }
  // Adapters are merged here, because that computes: the thread only writes.
  std::shared_ptr<const GptWeights> merged;
  if (weights_.table().lora().on()) merged = MergeAdapter(weights_);
  rest_ = [this, state, best, last, previous, merged, beside, in_pieces] {
    checkpoints_.Write({.weights = beside ? copy_->weights : weights_,
                        .merged = merged.get(),
                        .optimizer = beside ? copy_->named : optimizer_.State(),
                        .state = state,
                        .written = in_pieces ? file_->path() : std::filesystem::path()},
                       best, last, previous);
  };
  if (in_pieces) return;
  written_ = std::async(beside ? std::launch::async : std::launch::deferred, rest_);
  if (!beside) written_.wait();
}

bool CheckpointWriter::writes_pieces() const {
  return pieces_.valid() && pieces_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

// Waits for the pieces of all ranks; then the first goes on.
void CheckpointWriter::FinishPieces() {
  if (!pieces_.valid()) return;
  const std::string mine = ErrorOfRunning([&] { pieces_.get(); });
  for (const std::string& error : shards_.group->Gather(mine)) {
    if (failed_ == nullptr) failed_ = Unpack(error);
  }
  if (first() && failed_ == nullptr) written_ = std::async(std::launch::async, rest_);
}

bool CheckpointWriter::done() const {
  return busy() && written_.valid() &&
         written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::optional<CheckpointWriter::Written> CheckpointWriter::Wait() {
  if (!busy()) return {};
  FinishPieces();
  Written written = *std::exchange(under_way_, std::nullopt);
  std::string outcome;
  if (written_.valid()) outcome = ErrorOfRunning([&] { written_.get(); });
  outcome = Broadcast(shards_.group, outcome);
  written.error = std::exchange(failed_, nullptr);
  if (written.error == nullptr) written.error = Unpack(outcome);
  written.seconds = SteadySeconds() - began_;
  return written;
}

CheckpointPolicy::CheckpointPolicy(const TrainConfig& config, Checkpoints checkpoints,
                                   const GptWeights& weights, const Optimizer& optimizer,
                                   const OptimizerShards& shards, OnSaved on_saved)
    : config_(config),
      group_(shards.group),
      on_saved_(std::move(on_saved)),
      writer_(std::move(checkpoints), weights, optimizer, shards) {}

std::string CheckpointPolicy::Newest(const std::string& which) const {
  if (saved_step_ < 0) return "there is no checkpoint yet";
  return fmt::format("{} checkpoint is {} (step {})", which,
                     (checkpoints().run() / kLastDir).string(), saved_step_);
}

double CheckpointPolicy::Seconds(double bytes) const {
  constexpr double kBytesPerSecond = 50e6;
  const double save = longest_save_ > 0 ? longest_save_ : bytes / kBytesPerSecond;
  return writer_.busy() ? 2 * save : save;
}

void CheckpointPolicy::Resumed(const TrainState& state, const std::filesystem::path& checkpoint) {
  begun_step_ = state.step;
  // Any other is of a way that the run has left, or damaged.
  saved_step_ = checkpoint == checkpoints().run() / kLastDir ? state.step : -1;
  if (saved_step_ < 0 && (group_ == nullptr || group_->first())) checkpoints().Forget(state.step);
  saved_best_loss_ = state.best_val_loss;
  saved_best_step_ = state.best_step;
}

void CheckpointPolicy::RolledBack(const TrainState& state) {
  saved_best_loss_ = state.best_val_loss;
  saved_best_step_ = state.best_step;
  postponed_ = best_due_ = false;
}

// A checkpoint of parameters whose next step was skipped may be worthless, and would take the place
// of a good one: it waits for a step that is made.
bool CheckpointPolicy::RegularDue(const TrainState& state, bool evaluated) {
  const bool due = config_.checkpoint_every > 0
                       ? state.step > 0 && state.step % config_.checkpoint_every == 0
                       : evaluated && state.step > 0;
  const bool kept = state.step > 0 && checkpoints().OfRoundStep(state.step);
  postponed_ = postponed_ || due || kept;
  if (state.health.skipped_in_a_row > 0) return false;
  return std::exchange(postponed_, false);
}

void CheckpointPolicy::Begin(const TrainState& state, bool last) {
  if (last) begun_step_ = state.step;
  writer_.Begin(state, std::exchange(best_due_, false), last, saved_step_);
}

void CheckpointPolicy::Finish(TrainState& state) {
  Finish(state, writer_.Wait());
}

void CheckpointPolicy::Finish(TrainState& state,
                              const std::optional<CheckpointWriter::Written>& written) {
  if (!written) return;
  if (written->error) {
    begun_step_ = saved_step_;
    state.best_val_loss = saved_best_loss_;
    state.best_step = saved_best_step_;
    try {
      std::rethrow_exception(written->error);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kRuntime) throw;
      if (group_ != nullptr && !group_->first()) return;
      LogWarning(fmt::format("no checkpoint of step {}: {}: {}; training goes on until the next",
                             written->step, error.what(), error.cause()));
    }
    return;
  }
  const double begin = SteadySeconds();
  if (written->best) {
    saved_best_loss_ = state.best_val_loss;
    saved_best_step_ = state.best_step;
  }
  if (written->last) {
    saved_step_ = written->step;
    if (on_saved_) on_saved_(written->step, checkpoints().run() / kLastDir);
  }
  longest_save_ = std::max(longest_save_, written->seconds + SteadySeconds() - begin);
}

void CheckpointPolicy::FinishLast(TrainState& state) {
  const std::optional<CheckpointWriter::Written> written = writer_.Wait();
  if (!written || !written->error) return Finish(state, written);
  try {
    std::rethrow_exception(written->error);
  } catch (const Error& error) {
    const std::string kept =
        saved_step_ >= 0 ? fmt::format("{} is of step {}",
                                       (checkpoints().run() / kLastDir).string(), saved_step_)
                         : "there is no earlier one";
    throw Error(error.kind(),
                fmt::format("the checkpoint of step {} is lost: {}", state.step, error.what()),
                fmt::format("{}; {}", error.cause(), kept), error.help());
  }
}

void CheckpointPolicy::RepairBest(TrainState& state, const std::function<bool()>& is_there) {
  const auto repair = [&] {
    return is_there() || checkpoints().RepairBest(state.best_step) ? "yes" : "no";
  };
  if (!state.best_val_loss || BroadcastResult(group_, repair) == "yes") return;
  state.best_val_loss = saved_best_loss_ = {};
  state.best_step = saved_best_step_ = 0;
}

}  // namespace folio
