#include <optional>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {

Family Starcoder2Table() {
  Family family =
      FamilyLike(LlamaTable(), "starcoder2", {"Starcoder2ForCausalLM", "Starcoder2Model"});
  SetKeys({{"layer_norm_epsilon", {"norm_epsilon"}},
           {"resid_pdrop", {"residual_dropout"}},
           {"embd_pdrop", {"embedding_dropout"}}},
          family);
  // Its norms always have biases.
  family.fixed = {{"position_embedding", "rotary"}, {"bias", "true"}};
  family.own = Rows(kPlainOwn, {"sliding_window"});
  family.absent = R"({
    "vocab_size": 49152, "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30,
    "num_attention_heads": 24, "num_key_value_heads": 2, "hidden_act": "gelu_pytorch_tanh",
    "max_position_embeddings": 4096, "initializer_range": 0.018042, "bos_token_id": 50256,
    "eos_token_id": 50256, "layer_kinds": "w"})";
  // Keys of GPT-2 and of the program that trained the published models, of which hidden_act and
  // norm_epsilon are read.
  family.passed_over = {"activation_function", "layer_norm_epsilon"};
  family.derived = {
      kRopeScaling,
      kRopeParameters,
      kWindowOfAll,
      {"use_bias", "attention_bias",
       [](const Json& value, const Json&, Json& said, const std::string&) {
         said["attention_bias"] = value;
         said["mlp_bias"] = value;
       },
       [](const GptConfig& c) { return std::optional<Json>(c.has_attention_bias()); }},
      {"use_bias", "mlp_bias", nullptr, nullptr}};
  family.tensors = {
      kEmbedRow,
      kNorm1Row,
      TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
      kOutRow,
      kNorm2Row,
      TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.c_fc.weight"}, {"blk.{}.ffn_up.weight"}),
      TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.c_proj.weight"}, {"blk.{}.ffn_down.weight"}),
      kNormFRow,
      kHeadRow};
  family.gguf_keys = Rows(kLayerNormGgufKeys, {kWindowKeyRead});
  family.gguf_unsaid = {{"layer_kinds", "w"}};
  family.limits = {kHeadsOfC, kWindowEverywhere};
  return family;
}

}  // namespace folio
