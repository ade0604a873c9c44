#include "folio/formats/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/formats/gguf_tokenizer.h"
#include "folio/formats/out_in_model.h"
#include "folio/io/gguf.h"

namespace folio {
namespace {

constexpr std::string_view kArchitecture = "gpt2";
constexpr std::string_view kEmbeddings = "token_embd.weight", kHead = "output.weight";

// Modules as llama.cpp calls them.
struct ModuleName {
  std::string_view ours, theirs;
};
constexpr std::array kModules = {
    ModuleName{"wte", "token_embd"},          ModuleName{"wpe", "position_embd"},
    ModuleName{"ln_1", "attn_norm"},          ModuleName{"attn.c_attn", "attn_qkv"},
    ModuleName{"attn.c_proj", "attn_output"}, ModuleName{"ln_2", "ffn_norm"},
    ModuleName{"mlp.c_fc", "ffn_up"},         ModuleName{"mlp.c_proj", "ffn_down"},
    ModuleName{"ln_f", "output_norm"},        ModuleName{kHeadName, "output"},
};

std::string GgufName(const ParamRow& row) {
  const auto* const module = std::ranges::find(kModules, row.module, &ModuleName::ours);
  FOLIO_CHECK(module != kModules.end(), "a module without a name in GGUF");
  const std::string block = row.layer < 0 ? "" : fmt::format("blk.{}.", row.layer);
  return fmt::format("{}{}.{}", block, module->theirs, row.part);
}

// Linear layers lie the other way round.
bool IsTransposed(const ParamRow& row) {
  return row.kind == ParamKind::kLinear;
}

// --- reading

[[noreturn]] void Refuse(const GgufFile& file, const std::string& what, std::string cause,
                         std::string help) {
  throw InputError(fmt::format("{}: {}", file.path().string(), what), std::move(cause),
                   std::move(help));
}

std::string KeyOf(std::string_view name) {
  return fmt::format("{}.{}", kArchitecture, name);
}

// A size of the model.
int64_t Size(const GgufFile& file, std::string_view name, int64_t most = 1 << 30) {
  const std::string key = KeyOf(name);
  const std::optional<int64_t> size = file.Integer(key);
  if (size && *size >= 1 && *size <= most) return *size;
  Refuse(file, fmt::format("\"{}\" is {}", key, size ? "out of range" : "missing"),
         fmt::format("{}expected 1 to {}", size ? fmt::format("found {}, ", *size) : "", most),
         "convert the model again with a current program");
}

void CheckArchitecture(const GgufFile& file) {
  const std::string_view found = file.Text("general.architecture").value_or("");
  if (found != kArchitecture) {
    Refuse(file, fmt::format("a model of the architecture \"{}\"", found),
           fmt::format("folio runs \"{}\"", kArchitecture), "give a GPT-2 model");
  }
  if (file.foreign().empty()) return;
  const GgufFile::Foreign& tensor = file.foreign().front();
  Refuse(file, fmt::format("tensor \"{}\" is of type {}", tensor.name, tensor.type),
         "folio reads F32, F16, BF16, Q8_0 and Q4_0",
         "convert the original model to one of them, or requantise this file");
}

// Heads that share keys, or are of another size, would make another model of the same tensors.
void CheckHeads(const GgufFile& file, const GptConfig& config) {
  const int64_t D = config.head_size();
  for (const auto& [name, expected] :
       {std::pair{"attention.head_count_kv", config.n_head}, std::pair{"attention.key_length", D},
        std::pair{"attention.value_length", D}}) {
    const int64_t found = file.Integer(KeyOf(name)).value_or(expected);
    if (found == expected) continue;
    Refuse(file, fmt::format("\"{}\" is not supported", KeyOf(name)),
           fmt::format("found {}, GPT-2 has {}", found, expected), "");
  }
}

// Whether the head's matrix is missing, or the embeddings once more.
bool IsTied(const GgufFile& file, const TensorInfo& embeddings) {
  const TensorInfo* head = file.Find(kHead);
  if (head == nullptr) return true;
  return head->dtype == embeddings.dtype && head->shape == embeddings.shape &&
         std::memcmp(head->data, embeddings.data, head->bytes) == 0;
}

void ReadBiases(const GgufFile& file, GptConfig& config) {
  const bool attention = file.Find("blk.0.attn_qkv.bias") != nullptr;
  const bool mlp = file.Find("blk.0.ffn_up.bias") != nullptr;
  const bool norm = file.Find("output_norm.bias") != nullptr;
  config.bias = attention;
  if (mlp != attention) config.mlp_bias = mlp;
  if (norm != attention) config.layer_norm_bias = norm;
}

GptConfig ReadConfig(const GgufFile& file) {
  GptConfig config;
  config.n_positions = Size(file, "context_length");
  config.n_embd = Size(file, "embedding_length");
  // Each block has its matrices, so that no more are counted than the file holds.
  config.n_layer = Size(file, "block_count", std::ssize(file.tensors()));
  config.n_head = Size(file, "attention.head_count");
  const int64_t F = Size(file, "feed_forward_length");
  if (F != config.inner()) config.n_inner = F;
  config.layer_norm_epsilon =
      file.Number(KeyOf("attention.layer_norm_epsilon")).value_or(config.layer_norm_epsilon);
  const TensorInfo& embeddings = file.Require(kEmbeddings);
  if (embeddings.shape.rank() != 2) {
    Refuse(file, fmt::format("tensor \"{}\" is no matrix", kEmbeddings),
           fmt::format("its shape is {}", embeddings.shape.ToString()), "");
  }
  config.vocab_size = embeddings.shape[0];
  config.tie_word_embeddings = IsTied(file, embeddings);
  ReadBiases(file, config);
  try {
    for (const Field& field : config.Fields()) {
      SetField(field, FieldText(field), file.path().string());
    }
    config.Validate(file.path().string());
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause());
  }
  CheckHeads(file, config);
  return config;
}

// Ids that begin and end a text, unless they are of tokens that nothing is made of.
void ReadEnds(const GgufFile& file, const Tokenizer* tokenizer, GptConfig& config) {
  const int64_t ids = tokenizer == nullptr ? config.vocab_size : tokenizer->vocab_size();
  const auto read = [&](std::string_view key) {
    const std::optional<int64_t> id = file.Integer(key);
    return id && *id >= 0 && *id < ids ? id : std::nullopt;
  };
  config.bos_token_id = read("tokenizer.ggml.bos_token_id");
  config.eos_token_id = read("tokenizer.ggml.eos_token_id");
}

// Refuses a tensor that the model has no place for.
void RefuseOthers(const GgufFile& file, const std::set<std::string>& used) {
  for (const TensorInfo& info : file.tensors()) {
    if (used.contains(info.name) || info.name == kHead) continue;
    Refuse(file, fmt::format("tensor \"{}\" is not part of the model", info.name),
           "GPT-2 has none of that name", "check what made the file");
  }
}

// --- writing

[[noreturn]] void RefuseModel(std::string_view what, std::string_view setting) {
  throw InputError(fmt::format("GGUF cannot hold this model: {}", what),
                   fmt::format("{}; GPT-2, as other programs run it, has no such thing", setting),
                   "convert to hf, which keeps it, or train without");
}

void RequireGpt2(const GptConfig& config) {
  if (!config.pre_norm()) RefuseModel("its norms follow the sums", "norm_position is post");
  if (!config.learned_positions()) {
    RefuseModel("its positions are not learned",
                fmt::format("position_embedding is {}", config.position_embedding));
  }
  if (config.activation_function != "gelu_new") {
    RefuseModel("its activation is another",
                fmt::format("activation_function is {}", config.activation_function));
  }
  if (config.lm_head_bias) RefuseModel("its head has a bias", "lm_head_bias is true");
  if (!config.causal) RefuseModel("it looks ahead", "causal is false");
  if (!config.scale_attn_weights) {
    RefuseModel("its scores are not scaled", "scale_attn_weights is false");
  }
  if (config.scale_attn_by_inverse_layer_idx) {
    RefuseModel("its scores are scaled by layer", "scale_attn_by_inverse_layer_idx is true");
  }
}

// The type of a whole file by its matrices, as llama.cpp numbers them.
uint32_t FileType(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return 0;
    case Dtype::kF16:
      return 1;
    case Dtype::kQ4_0:
      return 2;
    case Dtype::kQ8_0:
      return 7;
    case Dtype::kBF16:
      return 32;
    default:
      FOLIO_CHECK(false, "GGUF holds no such dtype");
  }
}

void RequireBlocks(const GptConfig& config, Dtype dtype) {
  const auto block = static_cast<int64_t>(DtypeBlock(dtype));
  for (const auto& [name, size] :
       {std::pair{"n_embd", config.n_embd}, std::pair{"n_inner", config.inner()}}) {
    if (size % block == 0) continue;
    throw InputError(fmt::format("this model cannot be written as {}", DtypeName(dtype)),
                     fmt::format("{} stores blocks of {} numbers, and {} is {}", DtypeName(dtype),
                                 block, name, size),
                     "choose f16 or bf16");
  }
}

GgufHeader MakeHeader(const std::string& name, const GptConfig& config, const ModelToSave& model) {
  constexpr uint32_t kQuantization = 2;
  GgufHeader header;
  header.AddText("general.architecture", kArchitecture);
  header.AddText("general.type", "model");
  header.AddText("general.name", name);
  header.AddU32("general.file_type", FileType(model.dtype));
  if (DtypeBlock(model.dtype) > 1) header.AddU32("general.quantization_version", kQuantization);
  const auto size = [&](std::string_view key, int64_t value) {
    header.AddU32(KeyOf(key), static_cast<uint32_t>(value));
  };
  size("context_length", config.n_positions);
  size("embedding_length", config.n_embd);
  size("block_count", config.n_layer);
  size("feed_forward_length", config.inner());
  size("attention.head_count", config.n_head);
  size("vocab_size", config.vocab_size);
  header.AddF32(KeyOf("attention.layer_norm_epsilon"),
                static_cast<float>(config.layer_norm_epsilon));
  AddGgufTokenizer(model.tokenizer, config, header);
  return header;
}

// All that GPT-2 has, from what this model has of it.
std::vector<TensorToWrite> MakeTensors(const GptWeights& weights, Dtype dtype) {
  std::vector<TensorToWrite> tensors = OutInTensors(weights, /*biases=*/true, dtype);
  const ParamTable table(WithBiases(weights.config()));
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].name = GgufName(table.params()[i]);
  return tensors;
}

}  // namespace

FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading) {
  const auto file = std::make_shared<const GgufFile>(path, loading);
  CheckArchitecture(*file);
  FoundModel found{.model = {.config = ReadConfig(*file), .file = file}};
  found.tokenizer = ReadGgufTokenizer(*file);
  ReadEnds(*file, found.tokenizer.get(), found.model.config);
  std::set<std::string> used;
  const ParamTable table(found.model.config);
  for (const ParamInfo& info : table.params()) {
    const std::string name = GgufName(info);
    const bool transposed = IsTransposed(info);
    found.model.params.push_back(
        {file->Require(name, StoredShape(info.shape, transposed)), transposed});
    used.insert(name);
  }
  RefuseOthers(*file, used);
  return found;
}

void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireGpt2(config);
  RequireBlocks(config, model.dtype);
  const GgufHeader header = MakeHeader(ReplaceInvalidUtf8(path.stem().string()), config, model);
  WriteGguf(path, header, MakeTensors(model.weights, model.dtype));
}

std::vector<ListedTensor> ListGgufTensors(const std::filesystem::path& path) {
  const GgufFile file(path);
  std::vector<ListedTensor> listed = ListTensors(file);
  for (const GgufFile::Foreign& tensor : file.foreign()) {
    listed.push_back({tensor.name, std::string(tensor.type), tensor.shape, tensor.bytes});
  }
  return listed;
}

}  // namespace folio
