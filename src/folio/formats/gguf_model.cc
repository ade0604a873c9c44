#include "folio/formats/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/formats/gguf_config.h"
#include "folio/io/gguf.h"
#include "folio/model_files/families.h"
#include "folio/text/gguf_tokenizer.h"
#include "folio/text/token_roles.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

constexpr FileFormat kFormat = FileFormat::kGguf;

// --- reading the model

void RefuseForeign(const GgufFile& file) {
  if (file.foreign().empty()) return;
  const GgufFile::Foreign& tensor = file.foreign().front();
  RefuseGguf(file, fmt::format("tensor \"{}\" has the type {}", tensor.name, tensor.type),
             "folio supports F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K and IQ4_NL",
             "convert the original model to one of these, or requantize this file");
}

// Ids that begin and end a text or a turn, unless they are of tokens that nothing is made of.
void SetEnds(const TokenRoles& roles, const Tokenizer* tokenizer, GptConfig& config) {
  const int64_t ids = tokenizer == nullptr ? config.vocab_size
                                           : std::min(config.vocab_size, tokenizer->vocab_size());
  const auto known = [&](const std::optional<int64_t>& id) {
    return id && *id >= 0 && *id < ids ? id : std::nullopt;
  };
  config.bos_token_id = known(roles.begin);
  config.eos_token_id = known(roles.end);
  for (const auto& more : {known(roles.end_of_turn), known(roles.end_of_message)}) {
    if (!config.eos_token_id) config.eos_token_id = more;
    if (more && *more != config.eos_token_id &&
        std::ranges::count(config.more_eos_token_ids, *more) == 0) {
      config.more_eos_token_ids.push_back(*more);
    }
  }
}

// --- writing the model

// The type of a whole file by its matrices, as llama.cpp numbers them.
uint32_t FileType(Dtype dtype, bool mixed) {
  constexpr uint32_t kMixed = 15;
  if (mixed) return kMixed;
  using Type = std::pair<Dtype, uint32_t>;
  constexpr Type kTypes[] = {{Dtype::kF32, 0},   {Dtype::kF16, 1},   {Dtype::kQ4_0, 2},
                             {Dtype::kQ4_1, 3},  {Dtype::kQ8_0, 7},  {Dtype::kQ5_0, 8},
                             {Dtype::kQ5_1, 9},  {Dtype::kQ4_K, 14}, {Dtype::kQ5_K, 16},
                             {Dtype::kQ6_K, 18}, {Dtype::kBF16, 32}};
  const auto* const type = std::ranges::find(kTypes, dtype, &Type::first);
  FOLIO_CHECK(type != std::end(kTypes), "GGUF holds no such dtype");
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
                     block > 32 ? "use q4_k_m, which has smaller blocks for such rows, f16 or bf16"
                                : "use f16 or bf16");
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

// The tokens that begin and end a text. Those beside the first that ends one are written as those
// that end a turn and a message, which programs stop at all the same.
TokenRoles RolesOf(const GptConfig& config) {
  TokenRoles roles{.begin = config.bos_token_id, .end = config.eos_token_id};
  const std::vector<int64_t>& more = config.more_eos_token_ids;
  if (more.size() > 2) {
    throw InputError("GGUF cannot store this many end-of-text tokens",
                     fmt::format("the model has {}, GGUF has room for 3", more.size() + 1),
                     "convert to hf, or remove some in config.json and generation_config.json");
  }
  if (!more.empty()) roles.end_of_turn = more[0];
  if (more.size() > 1) roles.end_of_message = more[1];
  return roles;
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
  AddGgufConfig(family, config, header);
  AddGgufTokenizer(model.tokenizer, config.vocab_size, RolesOf(config), header);
  return header;
}

}  // namespace

FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading) {
  const auto file = std::make_shared<const GgufFile>(path, loading);
  const Family& family = GgufFamily(*file);
  RefuseForeign(*file);
  GptConfig config = ReadGgufConfig(*file, family);
  FoundModel found{.tokenizer = ReadGgufTokenizer(*file), .sampling = ReadSuggestedSampling(*file)};
  SetEnds(ReadGgufRoles(*file), found.tokenizer.get(), config);
  found.model = FindParams(config, file, family, kFormat, [&](const TensorInfo& info) {
    if (IsGgufDivisors(family, info)) return;  // the configuration has them
    RefuseGguf(*file, fmt::format("tensor \"{}\" is not part of the model", info.name),
               fmt::format("folio knows no tensor of that name in {}", family.gguf_architecture),
               "check the program that wrote the file");
  });
  return found;
}

void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireExpressed(config, kFormat, "GGUF cannot store this model");
  if (!model.mixed) RequireWholeBlocks(config, model.dtype);
  const Family& family = FamilyFor(config, kFormat);
  const GgufHeader header = MakeHeader(ReplaceInvalidUtf8(path.stem().string()), family, model);
  const GptConfig described = family.all_biases ? WithBiases(config) : config;
  std::vector<TensorToWrite> tensors =
      TensorsToWrite(model.weights, described, family, kFormat, model.dtype);
  if (model.mixed) Mix(tensors);
  AddGgufDivisors(family, config, tensors);
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
