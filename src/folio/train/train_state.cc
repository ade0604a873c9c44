#include "folio/train/train_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/model/config.h"
#include "folio/model/shard_weights.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

namespace {

void WriteAt(const internal::FileDescriptor& file, const std::filesystem::path& path,
             const char* bytes, size_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t written = pwrite(file.get(), bytes, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) internal::ThrowCannotWrite(path, written < 0 ? errno : ENOSPC);
    bytes += written;
    size -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
}

void Flush(const internal::FileDescriptor& file, const std::filesystem::path& path) {
  if (internal::FlushFile(file.get()) != 0) internal::ThrowCannotWrite(path, errno);
}

std::string FileName(const StateArray& array, const ParamInfo& info) {
  return array.name + "." + info.name;
}

// Calls visit(array, info) for each tensor of the file, in their order.
template <class Visit>
void VisitTensors(const ParamTable& table, std::span<const StateArray> state, const Visit& visit) {
  for (const ParamInfo& info : table.params()) {
    for (const StateArray& array : state) {
      if (array.Covers(info)) visit(array, info);
    }
  }
}

// Calls visit(begin, offset, size) for each run of elements of a parameter that the rank owns:
// from `begin` of the parameter on, they lie from `offset` on in the array.
template <class Visit>
void VisitOwned(const ParamInfo& info, const StateArray& array, int rank, const Visit& visit) {
  const int64_t end = info.offset + info.shape.count();
  for (size_t b = 0; b < array.shards.buckets().size(); ++b) {
    const Shards::Piece piece = array.shards.PieceOf(b, rank);
    const int64_t from = std::max(piece.begin, info.offset), to = std::min(piece.end, end);
    if (from >= to) continue;
    visit(from - info.offset, piece.offset + (from - piece.begin), to - from);
  }
}

// A tensor of the file as a model, or a part of one, has it: `place` says where its elements lie.
std::vector<float> ReadPart(const SafetensorsFile& file, const std::string& name,
                            const Shape& whole, const Shape& shape, const PlaceInWhole& place) {
  std::vector<float> all(static_cast<size_t>(whole.count()));
  file.Read(name, std::span(all));
  if (shape == whole) return all;
  std::vector<float> part(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < part.size(); ++i) {
    part[i] = all[static_cast<size_t>(place(static_cast<int64_t>(i)))];
  }
  return part;
}

void ReadOptimizerFile(const std::filesystem::path& path, const ParamTable& table,
                       const Optimizer& optimizer) {
  const ParamTable whole = table.Whole();
  const auto whole_shape = [&](const ParamInfo& info) -> const Shape& {
    return whole.params()[static_cast<size_t>(&info - table.params().data())].shape;
  };
  const SafetensorsFile file(path);
  VisitTensors(table, optimizer.State(), [&](const StateArray& array, const ParamInfo& info) {
    file.Require(FileName(array, info), whole_shape(info));
  });
  VisitTensors(table, optimizer.State(), [&](const StateArray& array, const ParamInfo& info) {
    const PlaceInWhole place(table, info, whole_shape(info));
    const std::vector<float> values =
        ReadPart(file, FileName(array, info), whole_shape(info), info.shape, place);
    const auto keep = [&](int64_t begin, int64_t offset, int64_t size) {
      const Tensor read(const_cast<float*>(values.data()) + begin, {size});
      CopyElements(read, array.tensor.Slice(offset, offset + size));
    };
    VisitOwned(info, array, optimizer.rank(), keep);
  });
}

constexpr char kStateFile[] = "state.json";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr int64_t kFormatVersion = 1;
constexpr int64_t kMostSteps = int64_t{1} << 53;

Json ToJson(const TorchRng::State& state) {
  return {{"words", state.words},
          {"position", state.position},
          {"has_normal", state.has_normal},
          {"normal", state.normal}};
}

Json ToJson(const RunningMoments& moments) {
  return {{"count", moments.count}, {"mean", moments.mean}, {"variance", moments.variance}};
}

RunningMoments MomentsFromJson(const Json& json) {
  return {.count = json.at("count").get<int64_t>(),
          .mean = json.at("mean").get<double>(),
          .variance = json.at("variance").get<double>()};
}

// Numbers that none of the steps needed are not written.
void PutHealth(const StepHealth& health, Json& json) {
  if (health.skipped > 0) {
    json["skipped"] = health.skipped;
    json["skipped_in_a_row"] = health.skipped_in_a_row;
  }
  if (health.first_loss > 0) json["first_loss"] = health.first_loss;
  if (health.loss.count > 0) {
    json["running_loss"] = ToJson(health.loss);
    json["running_log_grad_norm"] = ToJson(health.log_grad_norm);
  }
}

StepHealth HealthFromJson(const Json& json) {
  StepHealth health;
  if (json.contains("skipped")) {
    health.skipped = json.at("skipped").get<int64_t>();
    health.skipped_in_a_row = json.at("skipped_in_a_row").get<int64_t>();
  }
  if (json.contains("first_loss")) health.first_loss = json.at("first_loss").get<double>();
  if (json.contains("running_loss")) {
    health.loss = MomentsFromJson(json.at("running_loss"));
    health.log_grad_norm = MomentsFromJson(json.at("running_log_grad_norm"));
  }
  return health;
}

TorchRng::State TorchFromJson(const Json& json, const std::string& where) {
  TorchRng::State state;
  for (size_t i = 0; i < state.words.size(); ++i) {
    state.words[i] = json.at("words").at(i).get<uint32_t>();
  }
  state.position = json.at("position").get<uint32_t>();
  state.has_normal = json.at("has_normal").get<bool>();
  state.normal = json.at("normal").get<double>();
  if (state.position > TorchRng::kState) {
    throw InputError(where + ": the position in the random numbers is out of range");
  }
  return state;
}

TrainState StateFromJson(const Json& json, const std::string& where) {
  try {
    if (json.at("format").get<int64_t>() != kFormatVersion) {
      throw InputError(fmt::format("{}: unknown format {}", where, json.at("format").dump()),
                       fmt::format("this version reads format {}", kFormatVersion));
    }
    TrainState state;
    state.step = json.at("step").get<int64_t>();
    state.tokens = json.at("tokens").get<int64_t>();
    if (const Json& evaluation = json.at("evaluation"); !evaluation.is_null()) {
      state.evaluation = {evaluation.at("train_loss").get<double>(),
                          evaluation.at("val_loss").get<double>()};
    }
    state.best_step = json.at("best_step").get<int64_t>();
    state.seed = json.at("seed").get<int64_t>();
    if (!json.at("best_val_loss").is_null()) {
      state.best_val_loss = json.at("best_val_loss").get<double>();
    }
    if (json.contains("evaluations_without_better")) {
      state.evaluations_without_better = json.at("evaluations_without_better").get<int64_t>();
    }
    state.health = HealthFromJson(json);
    if (json.contains("rollbacks")) {
      state.rollbacks = json.at("rollbacks").get<int64_t>();
      state.data_skipped = json.at("data_skipped").get<int64_t>();
    }
    if (json.contains("budget")) {
      const Json& budget = json.at("budget");
      state.budget = {.steps = budget.at("steps").get<int64_t>(),
                      .seconds = budget.at("seconds").get<double>()};
    }
    if (json.contains("torch")) {
      state.torch = TorchFromJson(json.at("torch"), where);
      state.torch_before_batch = TorchFromJson(json.at("torch_before_batch"), where);
    }
    if (state.step < 0 || state.tokens < 0) throw InputError(where + ": negative step or tokens");
    if (state.rollbacks < 0 || state.data_skipped < 0 || state.data_skipped > kMostSteps) {
      throw InputError(where + ": rollbacks or data_skipped is out of range");
    }
    if (state.budget && (state.budget->steps < 0 || !(state.budget->seconds >= 0))) {
      throw InputError(where + ": the budget is out of range");
    }
    if (state.health.skipped < 0 || state.health.skipped > state.step) {
      throw InputError(where + ": more steps are skipped than there were");
    }
    return state;
  } catch (const JsonError& error) {
    throw InputError(fmt::format("{}: not a training state", where), error.what(),
                     "the run cannot be resumed from here; its model can still be used");
  }
}

TrainState ReadState(const std::filesystem::path& dir) {
  constexpr uint64_t kMaxState = 1 << 20;
  const std::string path = (dir / kTrainStateDir / kStateFile).string();
  return StateFromJson(ParseJson(ReadFile(path, kMaxState), path), path);
}

}  // namespace

void SaveTrainState(const std::filesystem::path& dir, const TrainState& state,
                    const ParamTable& table, std::span<const StateArray> optimizer,
                    const std::filesystem::path& written) {
  const std::filesystem::path at = dir / kTrainStateDir;
  const GuardedDirectory inside(dir);
  // This directory alone is made, and not `dir`: somebody may have moved the run.
  if (const auto error = internal::MakeDirectory(at)) {
    internal::ThrowCannotWrite(at, error.value());
  }
  if (!written.empty()) {
    const auto error = internal::Rename(written, at / kOptimizerFile);
    if (error) internal::ThrowCannotWrite(at / kOptimizerFile, error.value());
  } else {
    std::vector<NamedTensor> tensors;
    VisitTensors(table, optimizer, [&](const StateArray& array, const ParamInfo& info) {
      tensors.push_back({FileName(array, info), array.View(info)});
    });
    WriteSafetensors(at / kOptimizerFile, tensors);
  }
  Json json;
  json["format"] = kFormatVersion;
  json["step"] = state.step;
  json["tokens"] = state.tokens;
  json["evaluation"] = nullptr;
  if (state.evaluation) {
    json["evaluation"] = {{"train_loss", state.evaluation->train_loss},
                          {"val_loss", state.evaluation->val_loss}};
  }
  json["best_val_loss"] = state.best_val_loss ? Json(*state.best_val_loss) : Json(nullptr);
  json["best_step"] = state.best_step;
  json["seed"] = state.seed;
  if (state.evaluations_without_better > 0) {
    json["evaluations_without_better"] = state.evaluations_without_better;
  }
  PutHealth(state.health, json);
  if (state.rollbacks > 0) {
    json["rollbacks"] = state.rollbacks;
    json["data_skipped"] = state.data_skipped;
  }
  if (state.budget) {
    json["budget"] = {{"steps", state.budget->steps}, {"seconds", state.budget->seconds}};
  }
  if (state.torch && state.torch_before_batch) {
    json["torch"] = ToJson(*state.torch);
    json["torch_before_batch"] = ToJson(*state.torch_before_batch);
  }
  WriteFileAtomically(at / kStateFile, json.dump(1) + "\n");
}

int64_t SavedStep(const std::filesystem::path& dir) {
  return ReadState(dir).step;
}

double SavedBudgetSeconds(const std::filesystem::path& dir) {
  const TrainState state = ReadState(dir);
  return state.budget ? state.budget->seconds : 0;
}

TrainState LoadTrainState(const std::filesystem::path& dir, const ParamTable& table,
                          const Optimizer& optimizer) {
  const TrainState state = ReadState(dir);
  ReadOptimizerFile(dir / kTrainStateDir / kOptimizerFile, table, optimizer);
  return state;
}

SharedOptimizerFile::SharedOptimizerFile(std::filesystem::path path, const GptWeights& weights,
                                         const Optimizer& optimizer)
    : path_(std::move(path)), table_(weights.table()) {
  std::vector<NamedTensor> tensors;  // only their shapes count
  VisitTensors(table_, optimizer.State(), [&](const StateArray& array, const ParamInfo& info) {
    tensors.push_back({FileName(array, info), table_.View(info, weights.flat())});
  });
  layout_ = LayOutSafetensors(tensors);
}

void SharedOptimizerFile::Create() const {
  const internal::FileDescriptor file(
      internal::OpenFile(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
  if (file.get() < 0) internal::ThrowCannotWrite(path_, errno);
  WriteAt(file, path_, layout_.header.data(), layout_.header.size(), 0);
  if (ftruncate(file.get(), static_cast<off_t>(layout_.bytes)) != 0) {
    internal::ThrowCannotWrite(path_, errno);
  }
  Flush(file, path_);
}

bool SharedOptimizerFile::IsHere() const {
  std::error_code unknown;
  return std::filesystem::file_size(path_, unknown) == layout_.bytes &&
         access(path_.c_str(), W_OK) == 0;
}

void SharedOptimizerFile::Write(int rank, std::span<const StateArray> state) const {
  const internal::FileDescriptor file(internal::OpenFile(path_, O_WRONLY | O_NOFOLLOW));
  if (file.get() < 0) internal::ThrowCannotWrite(path_, errno);
  VisitTensors(table_, state, [&](const StateArray& array, const ParamInfo& info) {
    VisitOwned(info, array, rank, [&](int64_t begin, int64_t offset, int64_t size) {
      const float* kept = array.tensor.host<float>() + offset;
      WriteAt(
          file, path_, reinterpret_cast<const char*>(kept),
          static_cast<size_t>(size) * sizeof(float),
          layout_.offsets.at(FileName(array, info)) + static_cast<uint64_t>(begin) * sizeof(float));
    });
  });
  Flush(file, path_);
}

}  // namespace folio
