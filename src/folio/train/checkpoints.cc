#include "folio/train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/model/adapters.h"
#include "folio/model/lora.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/run_log.h"

namespace folio {

namespace {

namespace fs = std::filesystem;

// The name of a directory that is about to be removed: no checkpoint any more.
constexpr char kRemovedDir[] = ".removed";

// Gives the files other names, but for `without`; copies them where the file system has no links.
void LinkFiles(const fs::path& from, const fs::path& to, const std::string& without = {}) {
  std::error_code unread;
  const std::vector<std::string> names = internal::NamesIn(from, &unread);
  if (unread) internal::ThrowCannotWrite(from, unread.value());
  for (const std::string& name : names) {
    if (name == without) continue;
    const fs::path source = from / name, target = to / name;
    if (internal::IsDirectoryItself(source)) {
      if (const auto error = internal::MakeDirectory(target))
        internal::ThrowCannotWrite(target, error.value());
      LinkFiles(source, target, without);
      continue;
    }
    if (!internal::Link(source, target)) continue;
    AtomicFile copy(target);
    copy.Write(MappedFile(source).bytes());
    copy.Commit();
  }
}

// The steps whose checkpoints are in RUN/steps, the newest first.
std::vector<int64_t> KeptSteps(const fs::path& run) {
  constexpr size_t kMostDigits = 16;
  std::vector<int64_t> steps;
  for (const std::string& name : internal::NamesIn(run / kStepsDir)) {
    if (name.size() > kMostDigits || name.find_first_not_of("0123456789") != name.npos) continue;
    steps.push_back(std::stoll(name));
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

// Throws a kInput Error unless the model in `dir`, and what else has a checksum, is as it was
// saved.
void RequireSound(const fs::path& dir) {
  VerifyChecksums(dir);
  if (internal::IsThere(dir / kBaseModelFile)) {
    LoadBaseModel(dir);
    const SafetensorsFile adapters(dir / kAdapterWeightsFile);
    return;
  }
  OpenModelDir(dir);
}

fs::path PlaceOf(const fs::path& run, int64_t step) {
  return run / kStepsDir / std::to_string(step);
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

Checkpoints::Checkpoints(fs::path run, Options options)
    : run_(std::move(run)), options_(std::move(options)), inside_(run_) {}

void Checkpoints::WriteBase(const GptWeights& weights) const {
  AtomicDirectory dir(run_ / kBaseDir);
  SaveModel(dir.path(), weights, {.checksums = true});
  if (options_.tokenizer != nullptr) options_.tokenizer->Save(dir.path().string());
  WriteChecksums(dir.path());
  dir.Commit();
}

void SaveTrainedModel(const fs::path& dir, const GptWeights& weights, const GptWeights* merged,
                      const Tokenizer* tokenizer, const std::string& base) {
  SaveModel(dir, merged != nullptr ? *merged : weights, {.checksums = true});
  if (merged != nullptr) {
    CreateDirectories(dir / kAdapterDir);
    SaveAdapter(dir / kAdapterDir, weights, base);
  }
  if (tokenizer != nullptr) tokenizer->Save(dir.string());
}

void Checkpoints::Write(const CheckpointParts& parts, bool best, bool last,
                        int64_t previous) const {
  try {
    WriteBoth(parts, best, last, previous);
  } catch (const fs::filesystem_error& error) {
    internal::ThrowCannotWrite(error.path1(), error.code().value());
  } catch (const Error& error) {
    // Files that are linked, or read for their checksums, were there a moment ago: the disk is
    // gone.
    if (error.kind() != ErrorKind::kInput) throw;
    throw RuntimeError(error.what(), error.cause(), error.help());
  }
}

void Checkpoints::WriteBoth(const CheckpointParts& parts, bool best, bool last,
                            int64_t previous) const {
  const auto save_model = [&](const fs::path& dir) {
    if (options_.adapters) {
      SaveAdapter(dir, parts.weights, options_.base.path);
      SaveBaseModel(dir, options_.base);
      if (options_.tokenizer != nullptr) options_.tokenizer->Save(dir.string());
    } else {
      SaveTrainedModel(dir, parts.weights, parts.merged, options_.tokenizer, options_.base.path);
    }
  };
  // best/ first: the state in last/ says which step it is of.
  if (best) {
    AtomicDirectory dir(run_ / kBestDir);
    save_model(dir.path());
    WriteChecksums(dir.path());
    dir.Commit();
  }
  if (!last) return;
  if (previous >= 0 && previous != parts.state.step) Keep(previous);
  AtomicDirectory dir(run_ / kLastDir);
  if (best) {
    LinkFiles(run_ / kBestDir, dir.path());
  } else {
    save_model(dir.path());
  }
  SaveTrainState(dir.path(), parts.state, parts.weights.table(), parts.optimizer, parts.written);
  WriteChecksums(dir.path(), best ? run_ / kBestDir : fs::path());
  dir.Commit();
  Prune(parts.state.step);
}

bool Checkpoints::LostBest() const {
  return internal::IsThere(run_ / kMetricsFile) && !internal::IsThere(run_ / kBestDir);
}

bool Checkpoints::RepairBest(int64_t step) const {
  const fs::path best = run_ / kBestDir;
  std::string found;
  try {
    RequireSound(best);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    found = error.what();
  }
  for (const fs::path& checkpoint : FindCheckpoints(run_)) {
    try {
      if (SavedStep(checkpoint) != step) continue;
      RequireSound(checkpoint);
      AtomicDirectory dir(best);
      LinkFiles(checkpoint, dir.path(), kTrainStateDir);
      WriteChecksums(dir.path(), checkpoint);
      dir.Commit();
      LogWarning(fmt::format("{}; restored {} from {}", found, best.string(), checkpoint.string()));
      return true;
    } catch (const Error& error) {
      found += fmt::format("; {}", error.what());
    } catch (const fs::filesystem_error& error) {
      found += fmt::format("; {}", error.what());
    }
  }
  LogWarning(fmt::format("{}; the next evaluation will write {} again", found, best.string()));
  return false;
}

bool Checkpoints::OfRoundStep(int64_t step) const {
  return options_.keep_every > 0 && step % options_.keep_every == 0;
}

// Gives RUN/last a second name, before another takes its place.
void Checkpoints::Keep(int64_t step) const {
  const fs::path place = PlaceOf(run_, step);
  if ((options_.keep_last <= 1 && !OfRoundStep(step)) || internal::IsThere(place)) return;
  const fs::path last = run_ / kLastDir, steps = run_ / kStepsDir;
  if (!internal::IsDirectoryItself(last)) {
    LogWarning(
        fmt::format("{} was removed: the checkpoint of step {} is lost", last.string(), step));
    return;
  }
  // RUN/steps alone is made, and not the run: somebody may have moved it.
  std::error_code error = internal::MakeDirectory(steps);
  if (error.value() == ELOOP) {
    LogWarning(fmt::format("{} was replaced by a symbolic link, which is removed", steps.string()));
    internal::RemoveTree(steps);
    error = internal::MakeDirectory(steps);
  }
  if (error) internal::ThrowCannotWrite(steps, error.value());
  AtomicDirectory dir(place);
  LinkFiles(last, dir.path());
  dir.Commit();
}

// A directory that cannot be removed now is removed after the next checkpoint.
void Checkpoints::Prune(int64_t newest) const {
  const fs::path removed = run_ / kStepsDir / kRemovedDir;
  internal::RemoveTree(removed);
  int64_t kept = 1;  // RUN/last
  for (const int64_t step : KeptSteps(run_)) {
    // Checkpoints from `newest` on are of a way that the run has left.
    const bool earlier = step < newest;
    if (earlier && kept < options_.keep_last) {
      kept += 1;
      continue;
    }
    if (earlier && OfRoundStep(step)) continue;
    internal::Rename(PlaceOf(run_, step), removed);
    internal::RemoveTree(removed);
  }
}

std::vector<fs::path> FindCheckpoints(const fs::path& run) {
  std::vector<fs::path> found;
  if (internal::IsThere(run / kLastDir)) found.push_back(run / kLastDir);
  for (const int64_t step : KeptSteps(run)) found.push_back(PlaceOf(run, step));
  return found;
}

fs::path SoundCheckpoint(const fs::path& run, int64_t end) {
  std::vector<Error> errors;
  for (const fs::path& checkpoint : FindCheckpoints(run)) {
    try {
      const int64_t step = SavedStep(checkpoint);
      if (step >= end) continue;
      RequireSound(checkpoint);
      for (const Error& error : errors) {
        LogWarning(fmt::format("{}: {}; resuming from {} (step {})", error.what(), error.cause(),
                               checkpoint.string(), step));
      }
      return checkpoint;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      errors.push_back(error);
    }
  }
  if (!errors.empty()) throw Error(errors.front());
  throw InputError(fmt::format("'{}' contains no run to resume", run.string()),
                   fmt::format("there is no {}", (run / kLastDir).string()),
                   "remove --resume to start a run");
}

struct CheckpointWriter::Copy {
  Copy(const GptWeights& trained, const OptimizerSettings& optimizer)
      : own(trained.table().Whole(), trained.dtype(), PartOf(trained.table())),
        weights(own.table(), Tensors(trained), nullptr),
        arrays(StateLayout(optimizer, Shards(BucketsOf(own.table()), 1))) {
    for (StateArray& array : arrays) {
      state.push_back(std::make_unique<GptWeights>(own.table(), own.dtype(), ParamPart::kTrained));
      array.tensor = state.back()->flat().Slice(array.shards.begin(), array.shards.end());
    }
  }

  // The part of the weights that is copied: what is trained, or all of a model in parts.
  static ParamPart PartOf(const ParamTable& table) {
    return table.shard().whole() ? ParamPart::kTrained : ParamPart::kAll;
  }

  GptWeights own;
  GptWeights weights;  // with what training does not change, which lies in the model itself
  std::vector<StateArray> arrays;  // the optimizer's; their tensors are views of `state`
  std::vector<std::unique_ptr<GptWeights>> state;

 private:
  std::vector<Tensor> Tensors(const GptWeights& trained) const {
    std::vector<Tensor> tensors(own.tensors().begin(), own.tensors().end());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i]) tensors[i] = trained.tensors()[i];
    }
    return tensors;
  }
};

uint64_t CheckpointWriter::BytesOfCopy(const ParamTable& table, const OptimizerSettings& optimizer,
                                       Dtype dtype) {
  const ParamTable whole = table.Whole();
  const int64_t copied =
      Copy::PartOf(table) == ParamPart::kAll ? whole.flat_size() : whole.trained_size();
  return DtypeBytes(dtype, copied + StateElements(optimizer, whole));
}

CheckpointWriter::CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights,
                                   const Optimizer& optimizer, const CheckpointRanks& ranks,
                                   bool beside)
    : checkpoints_(std::move(checkpoints)),
      weights_(weights),
      optimizer_(optimizer),
      ranks_(ranks),
      beside_(beside) {}

CheckpointWriter::~CheckpointWriter() = default;

bool CheckpointWriter::HasRoomForCopy(uint64_t bytes, uint64_t available) {
  constexpr uint64_t kSpare = 4;  // parts of what is free that stay free
  return bytes <= available - available / kSpare;
}

// Returns whether there is a copy to write into, which is made at the first checkpoint and kept.
bool CheckpointWriter::MakeRoom() {
  if (!beside_) return false;
  if (copy_ != nullptr) return true;
  const uint64_t bytes = BytesOfCopy(weights_.table(), optimizer_.settings(), weights_.dtype());
  const uint64_t available = ThisMachinesMemory().available;
  bool room = available == 0 || HasRoomForCopy(bytes, available);
  try {
    if (room) copy_ = std::make_unique<Copy>(weights_, optimizer_.settings());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    room = false;
  }
  if (room || ranks_.group != nullptr) return room;
  beside_ = false;
  LogWarning(
      "not enough memory for a copy of weights and moments: training pauses during each "
      "checkpoint");
  return false;
}

// Begins to write this rank's pieces of the optimizer's state, if all ranks see the file.
bool CheckpointWriter::BeginPieces() {
  Group& group = *ranks_.group;
  // A shard of a model has no place of its own in the file.
  if (!ranks_.same_files || !weights_.table().shard().whole()) return false;
  if (!file_) file_.emplace(checkpoints_.run() / kMomentsFile, weights_, optimizer_);
  const std::string failed =
      group.Broadcast(first() ? ErrorOfRunning([&] { file_->Create(); }) : "");
  if (failed_ = Unpack(failed); failed_ != nullptr) return false;
  for (const auto& here : GatherNumbers(group, std::vector<uint8_t>{file_->IsHere()})) {
    ranks_.same_files = ranks_.same_files && here[0] != 0;
  }
  if (!ranks_.same_files) return false;
  std::vector<StateArray> state(optimizer_.State().begin(), optimizer_.State().end());
  own_state_.resize(state.size());
  for (size_t i = 0; i < state.size(); ++i) {
    const HostCopy now(state[i].tensor);
    const std::span<const float> numbers = now.elements<float>();
    own_state_[i].assign(numbers.begin(), numbers.end());
    state[i].tensor = Tensor(own_state_[i].data(), {state[i].tensor.count()});
  }
  pieces_ =
      std::async(std::launch::async, [this, state] { file_->Write(optimizer_.rank(), state); });
  return true;
}

// Brings the pieces of all ranks to the first.
void CheckpointWriter::GatherState() {
  for (size_t i = 0; i < optimizer_.State().size(); ++i) {
    const StateArray& array = optimizer_.State()[i];
    GatherPieces(*ranks_.group, array.shards, array.tensor,
                 copy_ ? copy_->state[i]->flat() : Tensor());
  }
}

// Brings the weights of a model in parts to the first rank, and the optimizer's state if `state`.
void CheckpointWriter::GatherWholeModel(bool state) {
  const auto gather = [&](const Tensor& mine, PartHeld held, const GptWeights* whole) {
    GatherParts(*ranks_.group, weights_.table(), mine, held, whole);
  };
  gather(weights_.flat(), PartHeld::kAll, copy_ ? &copy_->own : nullptr);
  if (!state) return;
  for (size_t i = 0; i < optimizer_.State().size(); ++i) {
    gather(optimizer_.State()[i].tensor, PartHeld::kPieces,
           copy_ ? copy_->state[i].get() : nullptr);
  }
}

void CheckpointWriter::Begin(const TrainState& state, bool best, bool last, int64_t previous) {
  began_ = SteadySeconds();
  rest_ = {};  // with the merged weights of the checkpoint before
  under_way_ = {.step = state.step, .best = best, .last = last};
  const bool beside = first() && MakeRoom();
  bool in_pieces = false;
  if (Group* group = ranks_.group; group != nullptr) {
    if (group->Broadcast(beside ? "room" : "none") == "none") {
      failed_ = std::make_exception_ptr(RuntimeError(
          "the first rank does not have enough memory for a copy of weights and moments", "",
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
    CopyElements(weights_.flat().Slice(0, copy_->own.flat().count()), copy_->own.flat());
  }
  if (beside && ranks_.group == nullptr) {
    for (size_t i = 0; i < copy_->arrays.size(); ++i) {
      CopyElements(optimizer_.State()[i].tensor, copy_->arrays[i].tensor);
    }
  }
  // Adapters are merged here, because that computes: the thread only writes.
  std::shared_ptr<const GptWeights> merged;
  if (weights_.table().lora().on() && !checkpoints_.adapters()) merged = MergeAdapter(weights_);
  rest_ = [this, state, best, last, previous, merged, beside, in_pieces] {
    checkpoints_.Write({.weights = beside ? copy_->weights : weights_,
                        .merged = merged.get(),
                        .optimizer = beside ? copy_->arrays : optimizer_.State(),
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
  for (const std::string& error : ranks_.group->Gather(mine)) {
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
  outcome = Broadcast(ranks_.group, outcome);
  written.error = std::exchange(failed_, nullptr);
  if (written.error == nullptr) written.error = Unpack(outcome);
  written.seconds = SteadySeconds() - began_;
  return written;
}

CheckpointPolicy::CheckpointPolicy(const TrainConfig& config, Checkpoints checkpoints,
                                   const GptWeights& weights, const Optimizer& optimizer,
                                   Group* group, OnSaved on_saved, std::function<double()> clock)
    : config_(config),
      group_(group),
      on_saved_(std::move(on_saved)),
      clock_(std::move(clock)),
      writer_(std::move(checkpoints), weights, optimizer, {group}) {}

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
  if (saved_step_ < 0 && IsFirst(group_)) checkpoints().Forget(state.step);
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
  const bool due =
      config_.checkpoint_every > 0 ? state.step % config_.checkpoint_every == 0 : evaluated;
  const bool kept = checkpoints().OfRoundStep(state.step);
  postponed_ = postponed_ || (state.step > 0 && (due || kept));
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
      if (!IsFirst(group_)) return;
      LogWarning(fmt::format("checkpoint of step {} failed: {}: {}; training continues",
                             written->step, error.what(), error.cause()));
    }
    return;
  }
  const double begin = clock_();
  if (written->best) {
    saved_best_loss_ = state.best_val_loss;
    saved_best_step_ = state.best_step;
  }
  if (written->last) {
    saved_step_ = written->step;
    if (on_saved_) on_saved_(written->step, checkpoints().run() / kLastDir);
  }
  longest_save_ = std::max(longest_save_, written->seconds + clock_() - begin);
}

void CheckpointPolicy::FinishLast(TrainState& state) {
  const std::optional<CheckpointWriter::Written> written = writer_.Wait();
  if (!written || !written->error) return Finish(state, written);
  try {
    std::rethrow_exception(written->error);
  } catch (const Error& error) {
    const std::string kept =
        saved_step_ >= 0 ? fmt::format("{} contains step {}",
                                       (checkpoints().run() / kLastDir).string(), saved_step_)
                         : "there is no earlier one";
    throw Error(
        error.kind(),
        fmt::format("could not write the checkpoint of step {}: {}", state.step, error.what()),
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
