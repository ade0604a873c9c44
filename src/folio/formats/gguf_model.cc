#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/formats/other_programs.h"
#include "folio/io/gguf.h"
#include "folio/model/families.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

[[noreturn]] void Refuse(
    const GgufFile& file, const std::string& what, std::string cause,
    std::string help =
        "folio reads GPT-2's byte-level BPE from GGUF; other tokenizers it takes "
        "from the model's Hugging Face directory") {
  throw InputError(fmt::format("{}: {}", file.path().string(), what), std::move(cause),
                   std::move(help));
}

// --- reading the model

constexpr FileFormat kFormat = FileFormat::kGguf;

std::string KeyOf(const Family& family, std::string_view name) {
  return fmt::format("{}.{}", family.gguf_architecture, name);
}

// A size of the model.
int64_t Size(const GgufFile& file, const std::string& key, int64_t most) {
  const std::optional<int64_t> size = file.Integer(key);
  if (size && *size >= 1 && *size <= most) return *size;
  Refuse(file, fmt::format("\"{}\" is {}", key, size ? "out of range" : "missing"),
         fmt::format("{}expected 1 to {}", size ? fmt::format("found {}, ", *size) : "", most),
         "convert the model again with a current program");
}

const Family& FamilyOf(const GgufFile& file) {
  const std::string_view architecture = file.Text("general.architecture").value_or("");
  const auto families = Families();
  const auto family = std::ranges::find_if(families, [&](const Family& one) {
    return (one.formats & Formats(kFormat)) != 0 && one.gguf_architecture == architecture;
  });
  if (family != families.end()) return *family;
  std::vector<std::string> known;
  for (const Family& one : families) {
    if ((one.formats & Formats(kFormat)) != 0) known.emplace_back(one.gguf_architecture);
  }
  Refuse(file, fmt::format("a model of the architecture \"{}\"", architecture),
         fmt::format("folio runs {}", Join(known, ", ")));
}

void RefuseForeign(const GgufFile& file) {
  if (file.foreign().empty()) return;
  const GgufFile::Foreign& tensor = file.foreign().front();
  Refuse(file, fmt::format("tensor \"{}\" is of type {}", tensor.name, tensor.type),
         "folio reads F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K and IQ4_NL",
         "convert the original model to one of them, or requantise this file");
}

// Heads that share keys, or are of another size, would make another model of the same tensors.
void CheckHeads(const GgufFile& file, const Family& family, const GptConfig& config) {
  const int64_t D = config.head_size();
  for (const auto& [name, expected] :
       {std::pair{"attention.head_count_kv", config.n_head}, std::pair{"attention.key_length", D},
        std::pair{"attention.value_length", D}}) {
    if (std::ranges::count(family.gguf_keys, name, &GgufKey::key) > 0) continue;
    const int64_t found = file.Integer(KeyOf(family, name)).value_or(expected);
    if (found == expected) continue;
    Refuse(file, fmt::format("\"{}\" is not supported", KeyOf(family, name)),
           fmt::format("found {}, expected {}", found, expected), "");
  }
}

void ReadBiases(const GgufFile& file, const Family& family, GptConfig& config) {
  const auto has = [&](int64_t layer, std::string_view module) {
    return file.Find(NameInFiles(family, kFormat, layer, module, "bias")) != nullptr;
  };
  if (SaysAllSizes(family)) {
    // Where no key says so, the family has them or has them not.
    if (std::ranges::count(family.own, "attention_bias") == 0) return;
    config.attention_bias = has(0, "attn.c_attn");
    config.mlp_bias = has(0, "mlp.c_fc");
    return;
  }
  const bool attention = has(0, "attn.c_attn"), mlp = has(0, "mlp.c_fc"), norm = has(-1, "ln_f");
  config.bias = attention;
  if (mlp != attention) config.mlp_bias = mlp;
  if (norm != attention) config.layer_norm_bias = norm;
}

void ReadKeys(const GgufFile& file, const Family& family, GptConfig& config) {
  const std::vector<Field> fields = config.Fields();
  for (const auto& [name, field_key, reading] : family.gguf_keys) {
    const std::string key = KeyOf(family, name);
    const Field& field = FieldOf(fields, field_key);
    if (reading == GgufKey::Reading::kNever) continue;
    const bool is_real = std::holds_alternative<double*>(field.value);
    if (reading == GgufKey::Reading::kOptional || is_real) {
      const auto number = file.Number(key);
      if (number) {
        SetField(field, fmt::format("{}", *number), file.path().string());
      } else if (reading == GgufKey::Reading::kRequired) {
        Refuse(file, fmt::format("\"{}\" is missing", key), "",
               "convert the model again with a current program");
      }
      continue;
    }
    // Each block has its matrices, so that no more are counted than the file holds.
    const int64_t most = field_key == "n_layer" ? std::ssize(file.tensors()) : 1 << 30;
    SetField(field, fmt::format("{}", Size(file, key, most)), file.path().string());
  }
}

// What config.json of such a model says, and no key of GGUF does.
void SetUnsaid(const Family& family, GptConfig& config, const std::string& where) {
  SetFields(family.fixed, config, where);
  const auto activation =
      std::ranges::find(family.absent, "activation_function", &FieldValue::field);
  if (activation != family.absent.end()) config.activation_function = activation->value;
}

// How rotary positions are scaled: keys say it, or, as Llama 3.1's, a tensor of divisors.
void ReadRopeScaling(const GgufFile& file, const Family& family, GptConfig& config) {
  if (!config.rotary()) return;
  const auto key = [&](std::string_view name) {
    return KeyOf(family, fmt::format("rope.scaling.{}", name));
  };
  const std::string_view type = file.Text(key("type")).value_or("none");
  if (type == "none") return;
  if (type != "linear" && type != "yarn") {
    Refuse(file, fmt::format("rotary positions scaled by \"{}\"", type), "",
           "folio has none, linear and yarn");
  }
  config.rope_scaling = type;
  config.rope_factor = file.Number(key("factor")).value_or(1);
  config.rope_original_positions = file.Integer(key("original_context_length"));
}

GptConfig ReadConfig(const GgufFile& file, const Family& family) {
  GptConfig config;
  try {
    SetUnsaid(family, config, file.path().string());
    ReadKeys(file, family, config);
    ReadRopeScaling(file, family, config);
    const TensorInfo& embeddings = file.Require(NameInFiles(family, kFormat, -1, "wte", "weight"));
    if (embeddings.shape.rank() != 2) {
      Refuse(file, fmt::format("tensor \"{}\" is no matrix", embeddings.name),
             fmt::format("its shape is {}", embeddings.shape.ToString()), "");
    }
    config.vocab_size = embeddings.shape[0];
    config.tie_word_embeddings = HeadIsTied(file, family, kFormat);
    ReadBiases(file, family, config);
    for (const Field& field : config.Fields()) {
      SetField(field, FieldText(field), file.path().string());
    }
    config.Validate(file.path().string());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput) throw;
    throw InputError(error.what(), error.cause());
  }
  CheckHeads(file, family, config);
  config = WithoutRedundantSizes(config);
  SetFamily(family, config);
  return config;
}

// Ids that begin and end a text or a turn, unless they are of tokens that nothing is made of.
void SetEnds(const TokenRoles& roles, const Tokenizer* tokenizer, GptConfig& config) {
  const int64_t ids = tokenizer == nullptr ? config.vocab_size : tokenizer->vocab_size();
  const auto known = [&](const std::optional<int64_t>& id) {
    return id && *id >= 0 && *id < ids ? id : std::nullopt;
  };
  config.bos_token_id = known(roles.begin);
  config.eos_token_id = known(roles.end);
  const auto turn = known(roles.end_of_turn);
  if (!config.eos_token_id) config.eos_token_id = turn;
  if (turn != config.eos_token_id && turn) config.more_eos_token_ids = {*turn};
}

// The template of conversations, with the tokens that the file names for it.
ChatSource ChatOf(const GgufFile& file, const TokenRoles& roles, const Tokenizer& tokenizer,
                  const GptConfig& config) {
  const auto text = [&](std::optional<int64_t> id) {
    const bool known = id && *id < tokenizer.vocab_size();
    return known ? std::string(tokenizer.TokenBytes(static_cast<int32_t>(*id))) : std::string();
  };
  return {.text = roles.chat_template,
          .where = fmt::format("{}: tokenizer.chat_template", file.path().string()),
          .bos_token = text(config.bos_token_id),
          .eos_token = text(config.eos_token_id)};
}

// --- writing the model

// The type of a whole file by its matrices, as llama.cpp numbers them.
uint32_t FileType(Dtype dtype, bool mixed) {
  constexpr uint32_t kMixed = 15;
  if (mixed) return kMixed;
  using Type = std::pair<Dtype, uint32_t>;
  constexpr std::array<Type, 11> kTypes = {{{Dtype::kF32, 0},
                                            {Dtype::kF16, 1},
                                            {Dtype::kQ4_0, 2},
                                            {Dtype::kQ4_1, 3},
                                            {Dtype::kQ8_0, 7},
                                            {Dtype::kQ5_0, 8},
                                            {Dtype::kQ5_1, 9},
                                            {Dtype::kQ4_K, 14},
                                            {Dtype::kQ5_K, 16},
                                            {Dtype::kQ6_K, 18},
                                            {Dtype::kBF16, 32}}};
  const auto* const type = std::ranges::find(kTypes, dtype, &Type::first);
  FOLIO_CHECK(type != kTypes.end(), "GGUF holds no such dtype");
  return type->second;
}

void RequireWholeBlocks(const GptConfig& config, Dtype dtype) {
  const auto block = static_cast<int64_t>(DtypeBlock(dtype));
  for (const auto& [name, size] :
       {std::pair{"n_embd", config.n_embd}, std::pair{"n_inner", config.inner()},
        std::pair{"n_head * head_dim", config.head_layout().q_width()}}) {
    if (size % block == 0) continue;
    throw InputError(fmt::format("this model cannot be written as {}", DtypeName(dtype)),
                     fmt::format("{} stores blocks of {} numbers, and {} is {}", DtypeName(dtype),
                                 block, name, size),
                     block > 32
                         ? "choose q4_k_m, which has smaller blocks for such rows, f16 or bf16"
                         : "choose f16 or bf16");
  }
}

// The layers of n whose most sensitive matrices Q4_K_M keeps in more bits: the first and the last
// eighth, and every third between.
bool HasMoreBits(size_t layer, size_t n) {
  return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

// The types of matrices in llama.cpp's Q4_K_M. Its rows that are not whole blocks of 256 have a
// type with blocks of 32 instead, or F16.
void Mix(std::span<TensorToWrite> tensors) {
  const auto is = [](const TensorToWrite& tensor, std::string_view module) {
    return tensor.name.ends_with(fmt::format("{}.weight", module));
  };
  const auto count = [&](std::string_view module) {
    return static_cast<size_t>(
        std::ranges::count_if(tensors, [&](const auto& tensor) { return is(tensor, module); }));
  };
  constexpr std::string_view kHead = "output.weight", kTied = "token_embd.weight";
  const bool tied = std::ranges::find(tensors, kHead, &TensorToWrite::name) == tensors.end();
  size_t values = 0, downs = 0;
  for (TensorToWrite& tensor : tensors) {
    if (tensor.dtype != Dtype::kQ4_K) continue;
    if (tensor.name == (tied ? kTied : kHead) ||
        (is(tensor, ".attn_v") && HasMoreBits(values++, count(".attn_v"))) ||
        (is(tensor, ".ffn_down") && HasMoreBits(downs++, count(".ffn_down")))) {
      tensor.dtype = Dtype::kQ6_K;
    } else if (is(tensor, ".attn_qkv")) {
      tensor.dtype = Dtype::kQ5_K;
    }
    const int64_t row = tensor.shape.back();
    if (row % static_cast<int64_t>(DtypeBlock(tensor.dtype)) == 0) continue;
    tensor.dtype = tensor.dtype == Dtype::kQ6_K   ? Dtype::kQ8_0
                   : tensor.dtype == Dtype::kQ5_K ? Dtype::kQ5_1
                                                  : Dtype::kQ5_0;
    if (row % static_cast<int64_t>(DtypeBlock(tensor.dtype)) != 0) tensor.dtype = Dtype::kF16;
  }
}

void AddKeys(const Family& family, const GptConfig& model, GgufHeader& header) {
  GptConfig config = WithAllSizes(model);
  const std::vector<Field> fields = config.Fields();
  for (const GgufKey& key : family.gguf_keys) {
    const Field& field = FieldOf(fields, key.field);
    const std::string name = KeyOf(family, key.key);
    if (const auto* number = std::get_if<double*>(&field.value)) {
      header.AddF32(name, static_cast<float>(**number));
    } else {
      header.AddU32(name, static_cast<uint32_t>(std::stoul(FieldText(field))));
    }
  }
}

GgufHeader MakeHeader(const std::string& name, const Family& family, const ModelToSave& model) {
  constexpr uint32_t kQuantization = 2;
  const GptConfig& config = model.weights.config();
  GgufHeader header;
  header.AddText("general.architecture", family.gguf_architecture);
  header.AddText("general.type", "model");
  header.AddText("general.name", name);
  header.AddU32("general.file_type", FileType(model.dtype, model.mixed));
  if (DtypeBlock(model.dtype) > 1) header.AddU32("general.quantization_version", kQuantization);
  AddKeys(family, config, header);
  AddGgufTokenizer(model.tokenizer, config, header);
  return header;
}

}  // namespace

FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading) {
  const auto file = std::make_shared<const GgufFile>(path, loading);
  const Family& family = FamilyOf(*file);
  RefuseForeign(*file);
  GptConfig config = ReadConfig(*file, family);
  FoundModel found{.tokenizer = ReadGgufTokenizer(*file)};
  const TokenRoles roles = ReadGgufRoles(*file);
  SetEnds(roles, found.tokenizer.get(), config);
  if (found.tokenizer != nullptr) {
    found.tokenizer->set_chat_source(ChatOf(*file, roles, *found.tokenizer, config));
  }
  found.model = FindParams(config, file, family, kFormat, [&](const TensorInfo& info) {
    Refuse(*file, fmt::format("tensor \"{}\" is not part of the model", info.name),
           fmt::format("{} as folio knows it has none of that name", family.gguf_architecture),
           "check what made the file");
  });
  return found;
}

void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireExpressed(config, kFormat, "GGUF cannot hold this model");
  if (!model.mixed) RequireWholeBlocks(config, model.dtype);
  const Family& family = FamilyFor(config, kFormat);
  const GgufHeader header = MakeHeader(ReplaceInvalidUtf8(path.stem().string()), family, model);
  const GptConfig described = family.all_biases ? WithBiases(config) : config;
  std::vector<TensorToWrite> tensors =
      TensorsToWrite(model.weights, described, family, kFormat, model.dtype);
  if (model.mixed) Mix(tensors);
  WriteGguf(path, header, tensors);
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
