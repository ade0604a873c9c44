#include <string_view>

#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {

Family Olmo2Table() {
  Family family = FamilyLike(LlamaTable(), "olmo2", {"Olmo2ForCausalLM", "Olmo2Model"});
  family.fixed = Rows(kLlamaFixed, {{"norm_position", "branch"}, {"qk_norm", "full"}});
  family.own = Rows(kPlainOwn, {"attention_bias"});
  family.absent = R"({
    "vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "eos_token_id": 50279, "tie_word_embeddings": false})";
  family.tensors = {kEmbedRow,
                    TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
                    kQNormRow,
                    kKNormRow,
                    kOutRow,
                    NamedRow("ln_attn", "model.layers.{}.post_attention_layernorm.weight",
                             "blk.{}.post_attention_norm.weight"),
                    kGateUpRow,
                    kDownRow,
                    NamedRow("ln_mlp", "model.layers.{}.post_feedforward_layernorm.weight",
                             "blk.{}.post_ffw_norm.weight"),
                    kNormFRow,
                    kHeadRow};
  family.limits = {kHeadsOfC, kHasHead};
  return family;
}

}  // namespace folio
