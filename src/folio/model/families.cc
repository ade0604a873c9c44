#include "folio/model/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {

namespace {

using enum FileFormat;

// --- GPT-2

constexpr auto kGpt2Architectures =
    std::to_array<std::string_view>({"GPT2LMHeadModel", "GPT2Model", "FolioLMHeadModel"});

// Configurations of other kinds of models have the second name, which transformers' GPT2Config
// takes too.
constexpr auto kGpt2Keys = std::to_array<ConfigKey>({
    {"n_layer", {"n_layer", "num_hidden_layers"}},
    {"n_head", {"n_head", "num_attention_heads"}},
    {"n_embd", {"n_embd", "hidden_size"}},
    {"n_positions", {"n_positions", "max_position_embeddings"}},
});
constexpr auto kGpt2RepeatedKeys = std::to_array<ConfigKey>({{"n_positions", {"n_ctx"}}});

constexpr auto kGpt2Absent = std::to_array<FieldValue>({
    {"embd_pdrop", "0.1"},
    {"attn_pdrop", "0.1"},
    {"resid_pdrop", "0.1"},
});

constexpr auto kGpt2Refused = std::to_array<RefusedKey>({
    {"add_cross_attention", "false", "cross-attention"},
    {"is_encoder_decoder", "false", "an encoder"},
    {"quantization_config", "null", "a quantised model"},
    {"pruned_heads", "{}", "a model with pruned heads"},
});

// The names are those of Hugging Face, which nanoGPT and llm.c have too, of GGUF, and of OpenAI's
// release behind "model/".
constexpr TensorRow PlainRow(std::string_view module, std::string_view hf, std::string_view gguf,
                             std::string_view openai) {
  return {module, {{{hf}, {gguf}, {hf}, {hf}, {openai}}}};
}

// Linear layers are (in,out) in transformers' GPT-2 too, convolutions of width one in OpenAI's.
constexpr TensorRow LinearRow(std::string_view module, std::string_view hf, std::string_view gguf,
                              std::string_view openai) {
  using enum Transform;
  return {module,
          {{{hf}, {gguf, kTranspose}, {hf, kTranspose}, {hf, kTranspose}, {openai, kUnitAxis}}}};
}

constexpr std::array kGpt2Tensors = {
    PlainRow("wte", "transformer.wte.weight", "token_embd.weight", "wte"),
    PlainRow("wpe", "transformer.wpe.weight", "position_embd.weight", "wpe"),
    PlainRow("ln_1", "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight", "h{}/ln_1/g"),
    LinearRow("attn.c_attn", "transformer.h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight",
              "h{}/attn/c_attn/w"),
    LinearRow("attn.c_proj", "transformer.h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight",
              "h{}/attn/c_proj/w"),
    PlainRow("ln_2", "transformer.h.{}.ln_2.weight", "blk.{}.ffn_norm.weight", "h{}/ln_2/g"),
    LinearRow("mlp.c_fc", "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight",
              "h{}/mlp/c_fc/w"),
    LinearRow("mlp.c_proj", "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight",
              "h{}/mlp/c_proj/w"),
    PlainRow("ln_f", "transformer.ln_f.weight", "output_norm.weight", "ln_f/g"),
    PlainRow("lm_head", "lm_head.weight", "output.weight", ""),
};

// Buffers of the causal mask, which old files hold.
constexpr auto kGpt2NotRead = std::to_array<std::string_view>({".attn.bias", ".attn.masked_bias"});

constexpr auto kGpt2GgufKeys = std::to_array<GgufKey>({
    {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},
    {"block_count", "n_layer"},
    {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"},
    {"vocab_size", "vocab_size", GgufKey::Reading::kNever},  // the embeddings say it
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Reading::kOptional},
});

// transformers has several settings of GPT-2 that the other programs have not, and nanoGPT and
// llm.c know it in several sizes alone.
constexpr unsigned kEverywhere = ~0u, kOthers = Formats(kGguf, kNanoGpt, kLlmc),
                   kSizesAlone = Formats(kNanoGpt, kLlmc);

constexpr auto kGpt2Limits = std::to_array<Limit>({
    {"norm_position", kEverywhere, [](const GptConfig& c) { return c.pre_norm(); }},
    {"position_embedding", kEverywhere, [](const GptConfig& c) { return c.learned_positions(); }},
    {"lm_head_bias", kEverywhere, [](const GptConfig& c) { return !c.lm_head_bias; }},
    {"causal", kEverywhere, [](const GptConfig& c) { return c.causal; }},
    {"n_kv_head", kEverywhere,
     [](const GptConfig& c) { return c.n_kv_head.value_or(c.n_head) == c.n_head; }},
    {"head_dim", kEverywhere,
     [](const GptConfig& c) { return c.n_head * c.head_size() == c.n_embd; }},
    {"scale_attn_weights", kOthers, [](const GptConfig& c) { return c.scale_attn_weights; }},
    {"scale_attn_by_inverse_layer_idx", kOthers,
     [](const GptConfig& c) { return !c.scale_attn_by_inverse_layer_idx; }},
    {"tie_word_embeddings", kSizesAlone, [](const GptConfig& c) { return c.tie_word_embeddings; }},
    {"n_inner", kSizesAlone, [](const GptConfig& c) { return c.inner() == 4 * c.n_embd; }},
    {"layer_norm_epsilon", kSizesAlone,
     [](const GptConfig& c) { return c.layer_norm_epsilon == 1e-5; }},
    {"activation_function", Formats(kGguf, kLlmc),
     [](const GptConfig& c) { return c.activation_function == "gelu_new"; }},
    // nanoGPT has GELU in its exact form, and loads GPT-2's weights all the same.
    {"activation_function", Formats(kNanoGpt),
     [](const GptConfig& c) {
       return c.activation_function == "gelu" || c.activation_function == "gelu_new";
     }},
});

constexpr Family kGpt2 = {
    .formats = Formats(kHuggingFace, kGguf, kNanoGpt, kLlmc, kOpenAi),
    .model_type = "gpt2",
    .architectures = kGpt2Architectures,
    .keys = kGpt2Keys,
    .repeated_keys = kGpt2RepeatedKeys,
    .absent = kGpt2Absent,
    .refused = kGpt2Refused,
    .absent_end = 50256,
    .activation_prefix = "",
    .tensors = kGpt2Tensors,
    .optional_prefix = "transformer.",
    .not_read = kGpt2NotRead,
    .all_biases = true,
    .gguf_architecture = "gpt2",
    .gguf_keys = kGpt2GgufKeys,
    .limits = kGpt2Limits,
};

// --- folio: GPT-2's files, of models that are none

constexpr auto kFolioArchitectures =
    std::to_array<std::string_view>({"FolioLMHeadModel", "GPT2LMHeadModel", "GPT2Model"});

constexpr Family FolioFamily() {
  Family family = kGpt2;
  family.formats = Formats(kHuggingFace);
  family.model_type = "folio";
  family.architectures = kFolioArchitectures;
  family.activation_prefix = "folio:";
  family.all_biases = false;
  family.gguf_architecture = {};
  family.gguf_keys = {};
  family.limits = {};
  return family;
}

constexpr std::array kFamilies = {kGpt2, FolioFamily()};

}  // namespace

std::span<const Family> Families() {
  return kFamilies;
}

const Family& Gpt2Family() {
  return kFamilies.front();
}

std::string WhyNot(const Family& family, FileFormat format, const GptConfig& config) {
  std::vector<std::string> reasons;
  GptConfig copy = config;
  const std::vector<Field> fields = copy.Fields();
  for (const Limit& limit : family.limits) {
    if ((limit.formats & Formats(format)) == 0 || limit.holds(config)) continue;
    reasons.push_back(fmt::format("{} = {}", limit.field, FieldText(FieldOf(fields, limit.field))));
  }
  return Join(reasons, ", ");
}

const Family& FamilyFor(const GptConfig& config, FileFormat format) {
  const auto found = std::ranges::find_if(kFamilies, [&](const Family& family) {
    return (family.formats & Formats(format)) != 0 && WhyNot(family, format, config).empty();
  });
  return found == kFamilies.end() ? Gpt2Family() : *found;
}

void RequireExpressed(const GptConfig& config, FileFormat format, const std::string& what) {
  const std::string why = WhyNot(FamilyFor(config, format), format, config);
  if (why.empty()) return;
  throw InputError(what, "it has " + why + "; GPT-2, as that program runs it, has no such thing",
                   "convert to hf, which keeps it, or train without");
}

GptConfig WithBiases(GptConfig config) {
  config.bias = true;
  config.attention_bias = config.mlp_bias = config.layer_norm_bias = std::nullopt;
  return config;
}

const Field& FieldOf(std::span<const Field> fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &Field::key);
  FOLIO_CHECK(found != fields.end(), "a family names a field that the configuration lacks");
  return *found;
}

namespace {

constexpr std::string_view kBlockNumber = "{}";

const FileTensor& RowInFiles(const Family& family, FileFormat format, std::string_view module) {
  const auto row = std::ranges::find(family.tensors, module, &TensorRow::module);
  FOLIO_CHECK(row != family.tensors.end(), "a module without a row in the family");
  return row->files[static_cast<size_t>(format)];
}

Transform TransformOf(const Family& family, FileFormat format, const ParamRow& param) {
  return param.part == "weight" ? RowInFiles(family, format, param.module).transform
                                : Transform::kNone;
}

bool SameNumbers(const TensorInfo& a, const TensorInfo& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.data == b.data || std::memcmp(a.data, b.data, a.bytes) == 0);
}

}  // namespace

std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part) {
  std::string name(RowInFiles(family, format, module).name);
  if (const size_t at = name.find(kBlockNumber); at != name.npos) {
    name.replace(at, kBlockNumber.size(), fmt::format("{}", layer));
  }
  if (part == "weight" || name.empty()) return name;
  const size_t end = name.find_last_of("./");
  return name.substr(0, end + 1) + (name[end] == '/' ? "b" : "bias");
}

std::string NameInFiles(const Family& family, FileFormat format, const ParamRow& param) {
  return NameInFiles(family, format, param.layer, param.module, param.part);
}

Shape ShapeInFiles(const Family& family, FileFormat format, const ParamRow& param) {
  const Transform transform = TransformOf(family, format, param);
  if (transform == Transform::kUnitAxis) return {1, param.shape[0], param.shape[1]};
  return StoredShape(param.shape, transform == Transform::kTranspose);
}

const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name) {
  const TensorInfo* found = file.Find(name);
  if (found != nullptr || !name.starts_with(family.optional_prefix)) return found;
  return file.Find(name.substr(family.optional_prefix.size()));
}

void RequireBlocks(const GptConfig& config, const Family& family, int64_t tensors,
                   const std::string& where) {
  const int64_t least = std::ranges::count_if(family.tensors, [](const TensorRow& row) {
    return row.files.front().name.find(kBlockNumber) != std::string_view::npos;
  });
  if (config.n_layer <= tensors / least) return;
  throw InputError(fmt::format("{}: fewer tensors than the model has", where),
                   fmt::format("it holds {}, and n_layer is {}", tensors, config.n_layer),
                   "check n_layer, or copy the model again: it may be damaged");
}

bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix) {
  const auto name = [&](std::string_view module) {
    return prefix + NameInFiles(family, format, -1, module, "weight");
  };
  const TensorInfo* head = file.Find(name(kHeadName));
  return head == nullptr || SameNumbers(*head, file.Require(name("wte")));
}

StoredModel FindParams(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const Family& family, FileFormat format,
                       const std::function<void(const TensorInfo&)>& other,
                       const std::string& prefix) {
  StoredModel model{.config = config, .file = std::move(file)};
  std::set<std::string_view> used;
  const ParamTable table(config);
  for (const ParamInfo& info : table.params()) {
    const std::string name = prefix + NameInFiles(family, format, info);
    const TensorInfo* there = FindTensor(*model.file, family, name);
    const TensorInfo& from = model.file->Require(there == nullptr ? name : there->name,
                                                 ShapeInFiles(family, format, info));
    const bool transposed = TransformOf(family, format, info) == Transform::kTranspose;
    model.params.push_back({from, transposed});
    model.params.back().from.shape = StoredShape(info.shape, transposed);
    used.insert(from.name);
  }
  const TensorInfo& wte = model.params.front().from;
  const std::string head = prefix + NameInFiles(family, format, -1, kHeadName, "weight");
  for (const TensorInfo& info : model.file->tensors()) {
    const auto ends = [&](std::string_view end) { return info.name.ends_with(end); };
    const bool repeated = config.tie_word_embeddings && info.name == head && SameNumbers(info, wte);
    if (repeated || used.contains(info.name) || !info.name.starts_with(prefix) ||
        std::ranges::any_of(family.not_read, ends)) {
      continue;
    }
    other(info);
  }
  return model;
}

std::vector<TensorToWrite> TensorsToWrite(const GptWeights& weights, const GptConfig& described,
                                          const Family& family, FileFormat format, Dtype matrices) {
  const auto ours = TensorsByName(weights);
  std::vector<TensorToWrite> tensors;
  const ParamTable table(described);
  for (const ParamInfo& info : table.params()) {
    const bool transposed = TransformOf(family, format, info) == Transform::kTranspose;
    const auto found = ours.find(info.name);
    const Tensor* source = found == ours.end() ? nullptr : found->second;
    const auto read = [source, transposed](int64_t row, std::span<float> out) {
      if (source == nullptr) {
        std::ranges::fill(out, 0.0f);
      } else {
        GatherRows(*source, transposed, row, out);
      }
    };
    tensors.push_back({NameInFiles(family, format, info), IsMatrix(info) ? matrices : Dtype::kF32,
                       StoredShape(info.shape, transposed), read});
  }
  return tensors;
}

}  // namespace folio
