#include <string_view>

#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {

Family NeoxTable() {
  Family family = FamilyLike(LlamaTable(), "gpt_neox", {"GPTNeoXForCausalLM", "GPTNeoXModel"});
  SetKeys({{"layer_norm_epsilon", {"layer_norm_eps"}},
           {"resid_pdrop", {"hidden_dropout"}},
           {"rope_theta", {"rotary_emb_base"}}},
          family);
  family.fixed = {{"position_embedding", "rotary"}, {"block", "parallel"}, {"bias", "true"}};
  family.own = Rows(kPlainOwn, {"attention_bias"});
  family.absent = R"({
    "vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
    "num_attention_heads": 64, "hidden_act": "gelu", "max_position_embeddings": 2048,
    "bos_token_id": 0, "eos_token_id": 2, "tie_word_embeddings": false, "rotary_pct": 0.25})";
  // Keys of dropout that transformers ignores.
  family.passed_over = {"attention_probs_dropout_prob", "hidden_dropout_prob"};
  family.derived = {kRopeScaling,
                    kRopeParameters,
                    {"rotary_pct", "rotary_dim", &ReadRotaryPart, &WriteRotaryPart},
                    kPartInParameters,
                    kPartInScaling};
  family.tensors = {
      NamedRow("wte", "gpt_neox.embed_in.weight", "token_embd.weight"),
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
      NamedRow("lm_head", "embed_out.weight", "output.weight")};
  family.optional_prefix = "gpt_neox.";
  family.gguf_architecture = "gptneox";
  family.gguf_keys = Rows(kLayerNormGgufKeys, {{"use_parallel_residual", "", GgufKey::Use::kTrue}});
  family.limits = {kHeadsOfC, kHasHead, kOwnKvHeads};
  return family;
}

}  // namespace folio
