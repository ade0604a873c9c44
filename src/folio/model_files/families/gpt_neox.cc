#include <array>
#include <string_view>

#include "folio/model/config.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr auto kNeoxNames = std::to_array<std::string_view>({"GPTNeoXForCausalLM", "GPTNeoXModel"});

constexpr auto kNeoxKeys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"layer_norm_epsilon", {"layer_norm_eps"}},
    {"resid_pdrop", {"hidden_dropout"}},
    {"rope_theta", {"rotary_emb_base"}},
}));

constexpr DerivedKey kRotaryPct = {"rotary_pct", "rotary_dim", &ReadRotaryPart, &WriteRotaryPart};
constexpr auto kNeoxDerived =
    Joined(std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kRotaryPct}), kPartsInRope);

constexpr auto kNeoxFixed = std::to_array<FieldValue>(
    {{"position_embedding", "rotary"}, {"block", "parallel"}, {"bias", "true"}});

constexpr std::string_view kNeoxAbsent = R"({
    "vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
    "num_attention_heads": 64, "hidden_act": "gelu", "max_position_embeddings": 2048,
    "bos_token_id": 0, "eos_token_id": 2, "tie_word_embeddings": false, "rotary_pct": 0.25})";

// Keys of dropout that transformers ignores.
constexpr auto kNeoxPassedOver =
    std::to_array<std::string_view>({"attention_probs_dropout_prob", "hidden_dropout_prob"});

constexpr auto kNeoxTensors = std::to_array<TensorRow>(
    {NamedRow("wte", "gpt_neox.embed_in.weight", "token_embd.weight"),
     NamedRow("ln_1", "gpt_neox.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"),
     TurnedRow("attn.c_attn", {"gpt_neox.layers.{}.attention.query_key_value.weight"},
               {"blk.{}.attn_qkv.weight"}, RowOrder::kAsHere, RowOrder::kHeadByHead),
     TurnedRow("attn.c_proj", {"gpt_neox.layers.{}.attention.dense.weight"},
               {"blk.{}.attn_output.weight"}),
     NamedRow("ln_2", "gpt_neox.layers.{}.post_attention_layernorm.weight",
              "blk.{}.ffn_norm.weight"),
     TurnedRow("mlp.c_fc", {"gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
               {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"},
               {"blk.{}.ffn_down.weight"}),
     NamedRow("ln_f", "gpt_neox.final_layer_norm.weight", "output_norm.weight"),
     NamedRow("lm_head", "embed_out.weight", "output.weight")});

constexpr auto kNeoxGgufKeys =
    Joined(kLayerNormGgufKeys, std::to_array<GgufKey>({
                                   {"use_parallel_residual", "", GgufKey::Use::kTrue},
                               }));

constexpr auto kNeoxLimits = std::to_array<Limit>({
    kHeadsOfC,
    kHasHead,
    {"n_kv_head", kEverywhere,
     [](const GptConfig& c) { return c.n_kv_head.value_or(c.n_head) == c.n_head; }},
});

}  // namespace

Family NeoxTable() {
  Family family = FamilyLike(LlamaTable(), "gpt_neox", kNeoxNames);
  family.keys = kNeoxKeys;
  family.fixed = kNeoxFixed;
  family.own = kBiasOwn;
  family.absent = kNeoxAbsent;
  family.passed_over = kNeoxPassedOver;
  family.derived = kNeoxDerived;
  family.tensors = kNeoxTensors;
  family.optional_prefix = "gpt_neox.";
  family.gguf_architecture = "gptneox";
  family.gguf_keys = kNeoxGgufKeys;
  family.limits = kNeoxLimits;
  return family;
}

}  // namespace folio
