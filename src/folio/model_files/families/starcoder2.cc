#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr auto kStarcoder2Names =
    std::to_array<std::string_view>({"Starcoder2ForCausalLM", "Starcoder2Model"});

constexpr auto kStarcoder2Keys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"layer_norm_epsilon", {"norm_epsilon"}},
    {"resid_pdrop", {"residual_dropout"}},
    {"embd_pdrop", {"embedding_dropout"}},
}));

// Its norms always have biases.
constexpr auto kStarcoder2Fixed =
    std::to_array<FieldValue>({{"position_embedding", "rotary"}, {"bias", "true"}});

constexpr std::string_view kStarcoder2Absent = R"({
    "vocab_size": 49152, "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30,
    "num_attention_heads": 24, "num_key_value_heads": 2, "hidden_act": "gelu_pytorch_tanh",
    "max_position_embeddings": 4096, "initializer_range": 0.018042, "bos_token_id": 50256,
    "eos_token_id": 50256, "layer_kinds": "w"})";

// Keys of GPT-2 and of the program that trained the published models, of which hidden_act and
// norm_epsilon are read.
constexpr auto kStarcoder2PassedOver =
    std::to_array<std::string_view>({"activation_function", "layer_norm_epsilon"});

constexpr auto kStarcoder2Derived =
    Joined(kWindowDerived,
           std::to_array<DerivedKey>(
               {{"use_bias", "attention_bias",
                 [](const Json& value, const Json&, Json& said, const std::string&) {
                   said["attention_bias"] = value;
                   said["mlp_bias"] = value;
                 },
                 [](const GptConfig& c) { return std::optional<Json>(c.has_attention_bias()); }},
                {"use_bias", "mlp_bias", nullptr, nullptr}}));

constexpr auto kStarcoder2Tensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv), kOutRow, kNorm2Row,
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.c_fc.weight"}, {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.c_proj.weight"}, {"blk.{}.ffn_down.weight"}),
     kNormFRow, kHeadRow});

constexpr auto kStarcoder2GgufKeys = Joined(kLayerNormGgufKeys, kWindowKeyRead);

constexpr auto kStarcoder2Limits = std::to_array<Limit>({kHeadsOfC, kWindowEverywhere});

}  // namespace

Family Starcoder2Table() {
  Family family = FamilyLike(LlamaTable(), "starcoder2", kStarcoder2Names);
  family.keys = kStarcoder2Keys;
  family.fixed = kStarcoder2Fixed;
  family.own = kWindowOwn;
  family.absent = kStarcoder2Absent;
  family.passed_over = kStarcoder2PassedOver;
  family.derived = kStarcoder2Derived;
  family.tensors = kStarcoder2Tensors;
  family.gguf_keys = kStarcoder2GgufKeys;
  family.gguf_unsaid = kAllWindows;
  family.limits = kStarcoder2Limits;
  return family;
}

}  // namespace folio
