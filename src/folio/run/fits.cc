#include "folio/run/fits.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/formats/published_models.h"
#include "folio/model/params.h"
#include "folio/model_files/adapter_files.h"
#include "folio/train/train_cost.h"

namespace folio {
namespace {

// Opening a tokenizer of 50,000 to 150,000 tokens, and the work of threads, add this to the
// program.
constexpr uint64_t kTokenizer = 50'000'000;

// Bytes for each number of the weights in the file, which are kept as they are there.
uint64_t StoredBytes(int64_t parameters, int64_t file_bytes) {
  return file_bytes >= int64_t{sizeof(float)} * parameters ? sizeof(float) : sizeof(uint16_t);
}

uint64_t TrainingPeak(const GptConfig& model, const TrainConfig& train, int64_t T, uint64_t memory,
                      Backend& backend) {
  const TrainShape shape = ShapeOf(model, train, T, PassOptionsOf(train, model, backend));
  MemoryBeside beside = BesideOf(shape, {.total = memory, .available = memory});
  beside.program += kTokenizer;
  return beside.Peak(PlannedBytes(shape));
}

}  // namespace

std::vector<ModelMemory> MemoryOfModels(const TrainConfig& train, int64_t tokens, uint64_t memory,
                                        Backend& backend) {
  std::vector<ModelMemory> models;
  for (const PublishedModel& published : PublishedModels()) {
    const GptConfig model = SizesOf(published);
    const int64_t T = std::min(tokens, model.n_positions);
    ModelMemory one{.name = std::string(published.name),
                    .parameters = ParamTable(model).parameters()};
    for (const PublishedFile& file : published.files) one.file_bytes += file.bytes;
    const auto parameters = static_cast<uint64_t>(one.parameters);
    const int64_t kept = 2 * model.n_layer * model.head_layout().kv_width() * T;  // keys, values
    one.write = parameters * StoredBytes(one.parameters, one.file_bytes) +
                sizeof(float) * static_cast<uint64_t>(kept) + HeldMemoryBytes() + kTokenizer;
    TrainConfig adapters = train, whole = train;
    ResolveTargets(adapters.lora, model, "settings");
    whole.lora = {};
    one.lora = TrainingPeak(model, adapters, T, memory, backend);
    one.train = TrainingPeak(model, whole, T, memory, backend);
    models.push_back(std::move(one));
  }
  return models;
}

Report FitsReport(const std::vector<ModelMemory>& models, uint64_t memory, int64_t tokens) {
  ReportTable table{.key = "models"};
  for (const ModelMemory& model : models) {
    const auto fits = [&](uint64_t bytes) { return memory == 0 || bytes <= memory; };
    std::vector<std::string> uses;
    if (fits(model.write)) uses.emplace_back("write");
    if (fits(model.lora)) uses.emplace_back("LoRA");
    if (fits(model.train)) uses.emplace_back("train");
    const std::string shown = uses.empty() ? "nothing" : Join(uses, ", ");
    table.rows.push_back({{"name", "model", model.name},
                          {"parameters",
                           ">parameters",
                           {HumanCount(static_cast<double>(model.parameters)), model.parameters}},
                          {"file_bytes", ">files", Value::Bytes(model.file_bytes)},
                          {"write_bytes", ">generate", Value::Bytes(model.write)},
                          {"lora_bytes", ">LoRA", Value::Bytes(model.lora)},
                          {"train_bytes", ">train", Value::Bytes(model.train)},
                          {"fits", "fits", {shown, Json(uses)}}});
  }
  const std::string text = fmt::format(
      "Peak memory to generate with the weights as stored, and to train, one sequence of up to {} "
      "tokens at a time. The last column shows what fits in {}.",
      WithCommas(tokens), memory == 0 ? "memory of unknown size" : HumanBytes(memory));
  return {.parts = {{.text = text, .table = table}},
          .data = {{"memory_bytes", memory}, {"tokens", tokens}}};
}

}  // namespace folio
