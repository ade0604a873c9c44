#include "folio/train/train_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"
#include "folio/model/shard.h"

namespace folio {
namespace {

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

// What none of its steps needed is not written.
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

TrainState FromJson(const Json& json, const std::string& where) {
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
                     "the run cannot go on from here; its model can still be used");
  }
}

TrainState ReadState(const std::filesystem::path& dir) {
  constexpr uint64_t kMaxState = 1 << 20;
  const std::string path = (dir / kTrainStateDir / kStateFile).string();
  return FromJson(ParseJson(ReadFile(path, kMaxState), path), path);
}

// The moment of a parameter, which lies at `place` in the whole model's.
std::vector<float> ReadMoment(const SafetensorsFile& file, const std::string& name,
                              const Shape& whole, const Shape& shape, const PlaceInWhole& place) {
  std::vector<float> all(static_cast<size_t>(whole.count()));
  file.Read(name, all);
  if (shape == whole) return all;
  std::vector<float> part(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < part.size(); ++i) {
    part[i] = all[static_cast<size_t>(place(static_cast<int64_t>(i)))];
  }
  return part;
}

// Keeps what this rank has of it.
void KeepMoment(const std::vector<float>& whole, const ParamInfo& info, const Tensor& moment,
                const Shards* shards, int rank) {
  if (shards == nullptr) {
    std::ranges::copy(whole, moment.data<float>() + info.offset);
    return;
  }
  const int64_t end = info.offset + info.shape.count();
  for (size_t b = 0; b < shards->buckets().size(); ++b) {
    const Shards::Piece piece = shards->PieceOf(b, rank);
    const int64_t from = std::max(piece.begin, info.offset), to = std::min(piece.end, end);
    if (from >= to) continue;
    std::copy_n(whole.data() + (from - info.offset), to - from,
                moment.data<float>() + piece.offset + (from - piece.begin));
  }
}

}  // namespace

void SaveTrainState(const std::filesystem::path& dir, const TrainState& state,
                    const ParamTable& table, const Tensor& m, const Tensor& v,
                    const std::filesystem::path& written) {
  const std::filesystem::path at = dir / kTrainStateDir;
  const GuardedDirectory inside(dir);
  // And not `dir`: somebody may have moved the run.
  if (const auto error = internal::MakeDirectory(at)) {
    internal::ThrowCannotWrite(at, error.value());
  }
  if (!written.empty()) {
    const auto error = internal::Rename(written, at / kOptimizerFile);
    if (error) internal::ThrowCannotWrite(at / kOptimizerFile, error.value());
  } else {
    std::vector<NamedTensor> moments;
    for (const ParamInfo& info : table.params()) {
      if (!info.trained) continue;
      moments.push_back({"m." + info.name, table.View(info, m)});
      moments.push_back({"v." + info.name, table.View(info, v)});
    }
    WriteSafetensors(at / kOptimizerFile, moments);
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
                          AdamW& optimizer, const Shards* shards, int rank) {
  const ParamTable whole = table.Whole();
  const TrainState state = ReadState(dir);
  const SafetensorsFile file(dir / kTrainStateDir / kOptimizerFile);
  for (const ParamInfo& info : whole.params()) {
    if (!info.trained) continue;
    file.Require("m." + info.name, info.shape);
    file.Require("v." + info.name, info.shape);
  }
  for (size_t p = 0; p < table.params().size(); ++p) {
    const ParamInfo& info = table.params()[p];
    if (!info.trained) continue;
    const Shape& shape = whole.params()[p].shape;
    const PlaceInWhole place(table, info, shape);
    for (const auto& [name, moment] :
         {std::pair("m.", &optimizer.m()), std::pair("v.", &optimizer.v())}) {
      KeepMoment(ReadMoment(file, name + info.name, shape, info.shape, place), info, *moment,
                 shards, rank);
    }
  }
  return state;
}

}  // namespace folio
