#include <string_view>

#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

// nanochat rotates queries and keys by the negated angles.
constexpr TensorRow NanochatRow(std::string_view module, const TensorNames& hf,
                                const TensorNames& own, Transform transform = Transform::kNone,
                                RowOrder order = RowOrder::kAsHere) {
  return {module, {{{hf, transform, order}, {}, {}, {}, {}, {own, transform, order}}}};
}

}  // namespace

// transformers' class lacks the later extras: lambdas, smear, value embeddings, backout.
Family NanochatTable() {
  Family family = FamilyLike(LlamaTable(), "nanochat", {"NanoChatForCausalLM", "NanoChatModel"});
  family.formats = Formats(FileFormat::kHuggingFace, FileFormat::kNanochat);
  SetKeys({{"logit_cap", {"final_logit_softcapping"}, /*null_for_zero=*/true}}, family);
  family.fixed = {{"norm", "rms_no_weight"},
                  {"position_embedding", "rotary"},
                  {"qk_norm", "after_rotary"},
                  {"embedding_norm", "true"},
                  {"bias", "false"}};
  family.own = Rows(kPlainOwn, {"attention_bias"});
  family.absent = R"({
    "vocab_size": 50304, "hidden_size": 768, "intermediate_size": 8192, "num_hidden_layers": 12,
    "num_attention_heads": 6, "hidden_act": "relu2", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "bos_token_id": 0, "eos_token_id": 1,
    "tie_word_embeddings": false, "final_logit_softcapping": 15})";
  family.tensors = {
      NanochatRow("wte", {"model.embed_tokens.weight"}, {"transformer.wte.weight"}),
      NanochatRow("smear_gate", {}, {"smear_gate.weight"}),
      NanochatRow("smear_lambda", {}, {"smear_lambda"}),
      NanochatRow("attn.c_attn", kQkvProj,
                  {"transformer.h.{}.attn.c_q.weight", "transformer.h.{}.attn.c_k.weight",
                   "transformer.h.{}.attn.c_v.weight"},
                  Transform::kTranspose, RowOrder::kSwappedHalves),
      NanochatRow("attn.c_proj", {"model.layers.{}.self_attn.o_proj.weight"},
                  {"transformer.h.{}.attn.c_proj.weight"}, Transform::kTranspose),
      NanochatRow("attn.value_embeds", {}, {"value_embeds.{}.weight"}),
      NanochatRow("attn.value_gate", {}, {"transformer.h.{}.attn.ve_gate.weight"}),
      NanochatRow("mlp.c_fc", {"model.layers.{}.mlp.fc1.weight"},
                  {"transformer.h.{}.mlp.c_fc.weight"}, Transform::kTranspose),
      NanochatRow("mlp.c_proj", {"model.layers.{}.mlp.fc2.weight"},
                  {"transformer.h.{}.mlp.c_proj.weight"}, Transform::kTranspose),
      NanochatRow("resid_lambdas", {}, {"resid_lambdas"}),
      NanochatRow("x0_lambdas", {}, {"x0_lambdas"}),
      NanochatRow("backout_lambda", {}, {"backout_lambda"}),
      NanochatRow("lm_head", {"lm_head.weight"}, {"lm_head.weight"})};
  family.gguf_architecture = {};
  family.gguf_keys = {};
  family.limits = {kHeadsOfC};
  return family;
}

}  // namespace folio
