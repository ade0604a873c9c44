#include "folio/inspect/describe_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/formats/model_formats.h"
#include "folio/inspect/parameters.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/model/lora.h"
#include "folio/term/table.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Seen holds a model at a path, as far as it can be read.
struct Seen {
  fs::path path = {};
  const ModelFormat* format = nullptr;
  uint64_t bytes = 0;                      // of the file, or of those in the directory
  std::vector<ListedTensor> tensors = {};  // with the names that the model has for them
  std::optional<FoundModel> found = {};    // or
  std::optional<Error> refusal = {};
};

uint64_t BytesOf(const fs::path& path) {
  if (!fs::is_directory(path)) return fs::file_size(path);
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

// The parameters, each with how it is stored.
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

// Returns how many numbers are stored as each dtype.
std::map<std::string, int64_t> ByDtype(const Seen& seen) {
  std::map<std::string, int64_t> counts;
  for (const ListedTensor& tensor : seen.tensors) counts[tensor.dtype] += tensor.shape.count();
  return counts;
}

int64_t Numbers(const Seen& seen) {
  int64_t numbers = 0;
  for (const ListedTensor& tensor : seen.tensors) numbers += tensor.shape.count();
  return numbers;
}

std::string TokenizerText(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return "none";
  return fmt::format("{}, {} tokens", tokenizer->kind(), WithCommas(tokenizer->vocab_size()));
}

std::string Text(const Seen& seen) {
  std::string out = fmt::format("path         {}\nformat       {}, {}\n", seen.path.string(),
                                seen.format->title, HumanBytes(static_cast<double>(seen.bytes)));
  if (seen.found) {
    out += fmt::format("tokenizer    {}\n{}", TokenizerText(seen.found->tokenizer.get()),
                       SummaryText(ModelSummary(seen.found->model.config)));
  } else {
    out += fmt::format("refused      {}\n", seen.refusal->what());
    for (const std::string& line : {seen.refusal->cause(), seen.refusal->help()}) {
      if (!line.empty()) out += fmt::format("             {}\n", line);
    }
  }
  if (!seen.found) out += "\n";
  std::vector<std::vector<std::string>> rows;
  for (const ListedTensor& tensor : seen.tensors) {
    rows.push_back({tensor.name, tensor.shape.ToString(), WithCommas(tensor.shape.count()),
                    tensor.dtype, HumanBytes(static_cast<double>(tensor.bytes))});
  }
  out += RenderTable({"name", "shape", ">count", "dtype", ">size"}, rows);
  std::vector<std::string> stored;
  for (const auto& [dtype, count] : ByDtype(seen)) {
    stored.push_back(fmt::format("{} as {}", WithCommas(count), dtype));
  }
  return out + fmt::format("\nparameters   {} in {} tensors\nstored       {}\n",
                           WithCommas(Numbers(seen)), seen.tensors.size(), fmt::join(stored, ", "));
}

Json TokenizerJson(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return nullptr;
  return {{"kind", tokenizer->kind()},
          {"vocab_size", tokenizer->vocab_size()},
          {"hash", tokenizer->hash()}};
}

std::string JsonText(const Seen& seen) {
  Json json = {{"schema", 1}};
  if (seen.found) json = ParametersJson(ParamTable(seen.found->model.config));
  json["path"] = seen.path.string();
  json["format"] = seen.format->name;
  json["file_bytes"] = seen.bytes;
  json["stored"] = Json::object();
  for (const auto& [dtype, count] : ByDtype(seen)) json["stored"][dtype] = count;
  json["refused"] = nullptr;
  if (seen.found) {
    json["tokenizer"] = TokenizerJson(seen.found->tokenizer.get());
  } else {
    json["refused"] = {{"what", seen.refusal->what()},
                       {"cause", seen.refusal->cause()},
                       {"help", seen.refusal->help()}};
    json["parameters"] = Numbers(seen);
  }
  Json tensors = Json::array();
  for (size_t i = 0; i < seen.tensors.size(); ++i) {
    const ListedTensor& tensor = seen.tensors[i];
    Json row = seen.found ? json["tensors"].at(i) : Json::object();
    row["name"] = tensor.name;
    row["shape"] = tensor.shape.dims();
    row["count"] = tensor.shape.count();
    row["dtype"] = tensor.dtype;
    row["bytes"] = tensor.bytes;
    tensors.push_back(std::move(row));
  }
  json["tensors"] = std::move(tensors);
  return json.dump(2) + "\n";
}

}  // namespace

std::string DescribeModel(const fs::path& path, const fs::path& adapter, bool json) {
  Seen seen = LookAt(path);
  if (seen.found && !adapter.empty()) {
    seen.found->model = WithAdapter(seen.found->model, adapter);
    seen.tensors = Parameters(seen.found->model);
  }
  return json ? JsonText(seen) : Text(seen);
}

}  // namespace folio
