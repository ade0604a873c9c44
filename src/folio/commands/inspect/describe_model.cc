#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/inspect/inspect_reports.h"
#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/config_json.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A model at a path, as far as it can be read.
struct Seen {
  fs::path path = {};
  const ModelFormat* format = nullptr;
  uint64_t bytes = 0;                      // of the file, or of all files in the directory
  std::vector<ListedTensor> tensors = {};  // with the model's names for them
  std::optional<FoundModel> found = {};    // else
  std::optional<Error> refusal = {};
};

uint64_t BytesOf(const fs::path& path) {
  uint64_t bytes = 0;
  if (!fs::is_directory(path)) {
    for (const fs::path& part : GgufParts(path)) bytes += fs::file_size(part);
    return bytes;
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

// The parameters, each with its stored dtype.
std::vector<ListedTensor> Parameters(const StoredModel& model) {
  std::vector<ListedTensor> tensors;
  const ParamTable table(model.config);
  for (size_t i = 0; i < table.params().size(); ++i) {
    const TensorInfo& from = model.params[i].from;
    tensors.push_back({table.params()[i].name, std::string(DtypeName(from.dtype)),
                       table.params()[i].shape, from.bytes});
  }
  return tensors;
}

Seen LookAt(const fs::path& path) {
  RequireTyped(path);
  Seen seen{.path = FindModelDir(path)};
  seen.format = &FormatOf(seen.path);
  try {
    seen.found = seen.format->open(seen.path, Loading::kMap);
    seen.tensors = Parameters(seen.found->model);
  } catch (const Error& error) {
    if (seen.format->list == nullptr) throw;
    try {
      seen.tensors = seen.format->list(seen.path);
    } catch (const Error&) {
      throw error;
    }
    seen.refusal = error;
  }
  seen.bytes = BytesOf(seen.path);
  return seen;
}

// "normal(0, 0.02)", "xavier_uniform", "zero", "one".
std::string InitText(const ParamInfo& info, const GptConfig& config) {
  if (info.init == InitKind::kZero) return "zero";
  if (info.init == InitKind::kOne) return "one";
  if (info.init == InitKind::kResidualFactor) return "1.15 to 1.05";
  if (info.init == InitKind::kEmbeddingFactor) return "0.2 to 0.05";
  if (info.init == InitKind::kBackoutFactor) return "0.2";
  if (info.init == InitKind::kGate) return "uniform(0, 0.02)";
  if (config.init == InitMethod::kNanochat) {
    return fmt::format("{}, {:.4g}", NameOf(config.init), InitSpread(config, info));
  }
  if (config.init == InitMethod::kNormal)
    return fmt::format("normal(0, {:.4g})", InitSpread(config, info));
  return std::string(
      NameOf(info.init == InitKind::kQkvWeight ? config.init : InitMethod::kXavierUniform));
}

Json SummaryJson(const ModelSummary& summary) {
  return {{"layers", summary.layers},
          {"heads", summary.heads},
          {"kv_heads", summary.kv_heads},
          {"head_size", summary.head_size},
          {"channels", summary.channels},
          {"feed_forward", summary.feed_forward},
          {"context", summary.context},
          {"positions", summary.positions},
          {"vocabulary", summary.vocabulary},
          {"tied", summary.tied},
          {"norm", summary.norm},
          {"activation", summary.activation}};
}

Json TotalJson(const ModelSummary::Total& total) {
  return {{"tensors", total.tensors}, {"parameters", total.parameters}};
}

// "rotary positions (base 100,000, scaled as llama3 by 8)"
std::string PositionsText(const GptConfig& config) {
  if (!config.rotary()) return fmt::format("{} positions", NameOf(config.position_embedding));
  std::string text =
      fmt::format("rotary positions (base {}", WithCommas(std::llround(config.rope_theta)));
  if (config.rope_window_theta > 0)
    text += fmt::format(", in windows {}", WithCommas(std::llround(config.rope_window_theta)));
  if (config.rotary_width() != config.head_size()) {
    text += fmt::format(", {} of {} channels", config.rotary_width(), config.head_size());
  }
  if (config.rope_scaling != RopeScaling::kDefault) {
    text += fmt::format(", {} by {}", NameOf(config.rope_scaling), config.rope_factor);
  }
  if (config.no_rope_every > 0) text += fmt::format(", not every layer {}", config.no_rope_every);
  return text + ")";
}

// The whole model. JSON has it as one object, `summary`, with the complete configuration.
std::vector<Cell> SummaryFacts(const ParamTable& table) {
  const ModelSummary summary(table);
  std::string heads =
      fmt::format("{} of {} channels", summary.heads, WithCommas(summary.head_size));
  if (summary.kv_heads != summary.heads) {
    heads += fmt::format(", {} of keys and values", summary.kv_heads);
  }
  const GptConfig& config = table.config();
  std::vector<Cell> facts = {
      {"summary", "", SummaryJson(summary)},
      {"parameters", "", summary.parameters()},
      {"bytes", "", summary.float32_bytes()},
      {"decayed", "", TotalJson(summary.decayed)},
      {"not_decayed", "", TotalJson(summary.not_decayed)},
      {"config", "", ParseJson(GptConfigToJson(table.config()), "config.json")},
      {"", "layers", summary.layers},
      {"", "heads", heads},
      {"", "channels",
       fmt::format("{}, feed-forward {}", WithCommas(summary.channels),
                   WithCommas(summary.feed_forward))},
      {"", "context",
       fmt::format("{} tokens, {}", WithCommas(summary.context), PositionsText(config))},
      {"", "vocabulary", Value::Commas(summary.vocabulary).In(" tokens")},
      {"", "head", summary.tied ? "tied to wte" : "not tied: a separate matrix"},
      {"", "activation", fmt::format("{}{}", summary.activation, config.gated() ? ", gated" : "")}};
  GptConfig copy = config;
  for (const GptRow& row : copy.Rows()) {
    std::string text = row.fact == nullptr ? "" : row.fact(config);
    if (!text.empty()) facts.push_back({"", std::string(row.title), std::move(text)});
  }
  return facts;
}

std::string CountText(int64_t parameters, int64_t tensors) {
  return fmt::format("{} in {} tensors", WithCommas(parameters), tensors);
}

std::vector<Cell> ShapeCells(const std::string& name, const Shape& shape) {
  return {{"name", "name", name},
          {"shape", "shape", Value(shape.ToString(), Json(shape.dims()))},
          {"count", ">count", Value::Commas(shape.count())}};
}

std::vector<Cell> TokenizerFacts(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return {{"tokenizer", "tokenizer", Value("none", Json())}};
  return {
      {"tokenizer", "tokenizer",
       Value(fmt::format("{}, {} tokens", tokenizer->kind(), WithCommas(tokenizer->vocab_size())),
             {{"kind", tokenizer->kind()},
              {"vocab_size", tokenizer->vocab_size()},
              {"hash", tokenizer->hash()}})}};
}

// The reason why folio refuses the model.
std::vector<Cell> RefusalFacts(const Error& refusal, int64_t numbers) {
  std::vector<Cell> facts = {
      {"refused", "refused",
       Value(refusal.what(),
             {{"what", refusal.what()}, {"cause", refusal.cause()}, {"help", refusal.help()}})},
      {"parameters", "", numbers}};
  for (const std::string& line : {refusal.cause(), refusal.help()}) {
    if (!line.empty()) facts.push_back({"", " ", line});
  }
  return facts;
}

ReportTable StoredTable(const Seen& seen) {
  std::optional<ParamTable> table;
  if (seen.found) table.emplace(seen.found->model.config);
  ReportTable stored{.key = "tensors"};
  for (size_t i = 0; i < seen.tensors.size(); ++i) {
    const ListedTensor& tensor = seen.tensors[i];
    std::vector<Cell>& row = stored.rows.emplace_back(ShapeCells(tensor.name, tensor.shape));
    row.push_back({"dtype", "dtype", tensor.dtype});
    row.push_back({"bytes", ">size", Value::Bytes(tensor.bytes)});
    if (!table) continue;
    const ParamInfo& info = table->params()[i];
    row.push_back({"init", "", InitText(info, table->config())});
    row.push_back({"decay", "", IsDecayed(info.group)});
  }
  return stored;
}

}  // namespace

Report DescribeParameters(const ParamTable& table) {
  const ModelSummary summary(table);
  ReportTable tensors{.key = "tensors"};
  for (const ParamInfo& info : table.params()) {
    std::vector<Cell>& row = tensors.rows.emplace_back(ShapeCells(info.name, info.shape));
    row.push_back({"init", "init", InitText(info, table.config())});
    row.push_back({"decay", "decay", IsDecayed(info.group)});
  }
  return {
      .title = "Model",
      .parts = {{.facts = SummaryFacts(table)},
                {.table = std::move(tensors)},
                {.facts = {{"", "parameters", CountText(summary.parameters(), summary.tensors())},
                           {"", "decayed",
                            CountText(summary.decayed.parameters, summary.decayed.tensors)},
                           {"", "not decayed",
                            CountText(summary.not_decayed.parameters, summary.not_decayed.tensors)},
                           {"", "as float32", Value::Bytes(summary.float32_bytes())}}}}};
}

Report DescribeModel(const fs::path& path, const fs::path& adapter) {
  Seen seen = LookAt(path);
  if (seen.found && !adapter.empty()) {
    seen.found->model = WithAdapter(seen.found->model, adapter);
    seen.tensors = Parameters(seen.found->model);
  }
  Json stored = Json::object();
  std::vector<std::string> as;
  int64_t numbers = 0;
  std::map<std::string, int64_t> counts;  // of numbers, by their dtypes
  for (const ListedTensor& tensor : seen.tensors) counts[tensor.dtype] += tensor.shape.count();
  for (const auto& [dtype, count] : counts) {
    numbers += count;
    stored[dtype] = count;
    as.push_back(fmt::format("{} as {}", WithCommas(count), dtype));
  }
  std::vector<Cell> facts = {
      {"path", "path", seen.path.string()},
      {"format", "", seen.format->name},
      {"file_bytes", "", seen.bytes},
      {"", "format", fmt::format("{}, {}", seen.format->title, HumanBytes(seen.bytes))},
      {"stored", "", stored}};
  const auto add = [&](const std::vector<Cell>& more) {
    facts.insert(facts.end(), more.begin(), more.end());
  };
  if (seen.found) {
    add({{"refused", "", Json()}});
    if (const std::string& note = seen.found->model.note; !note.empty()) {
      add({{"note", "note", note}});
    }
    add(TokenizerFacts(seen.found->tokenizer.get()));
    add(SummaryFacts(ParamTable(seen.found->model.config)));
  } else {
    add(RefusalFacts(*seen.refusal, numbers));
  }
  return {.title = "Model",
          .parts = {{.facts = std::move(facts)},
                    {.table = StoredTable(seen)},
                    {.facts = {{"", "parameters", CountText(numbers, std::ssize(seen.tensors))},
                               {"", "stored", Join(as, ", ")}}}}};
}

}  // namespace folio
