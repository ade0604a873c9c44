#include <string_view>
#include <vector>

#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

using enum FileFormat;

// The names of Hugging Face, which nanoGPT and llm.c use too, of GGUF, and of OpenAI's release
// after "model/".
constexpr TensorRow PlainRow(std::string_view module, std::string_view hf, std::string_view gguf,
                             std::string_view openai) {
  return {module, {{{{hf}}, {{gguf}}, {{hf}}, {{hf}}, {{openai}}}}};
}

// Linear layers are (in,out) in transformers' GPT-2 too, and convolutions of width one in OpenAI's.
constexpr TensorRow LinearRow(std::string_view module, std::string_view hf, std::string_view gguf,
                              std::string_view openai) {
  using enum Transform;
  return {module,
          {{{{hf}},
            {{gguf}, kTranspose},
            {{hf}, kTranspose},
            {{hf}, kTranspose},
            {{openai}, kUnitAxis}}}};
}

std::vector<TensorRow> Gpt2Tensors() {
  return {PlainRow("wte", "transformer.wte.weight", "token_embd.weight", "wte"),
          PlainRow("wpe", "transformer.wpe.weight", "position_embd.weight", "wpe"),
          PlainRow("ln_1", "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight", "h{}/ln_1/g"),
          LinearRow("attn.c_attn", "transformer.h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight",
                    "h{}/attn/c_attn/w"),
          LinearRow("attn.c_proj", "transformer.h.{}.attn.c_proj.weight",
                    "blk.{}.attn_output.weight", "h{}/attn/c_proj/w"),
          PlainRow("ln_2", "transformer.h.{}.ln_2.weight", "blk.{}.ffn_norm.weight", "h{}/ln_2/g"),
          LinearRow("mlp.c_fc", "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight",
                    "h{}/mlp/c_fc/w"),
          LinearRow("mlp.c_proj", "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight",
                    "h{}/mlp/c_proj/w"),
          PlainRow("ln_f", "transformer.ln_f.weight", "output_norm.weight", "ln_f/g"),
          PlainRow("lm_head", "lm_head.weight", "output.weight", "")};
}

// transformers has several settings of GPT-2 that the other programs lack, and nanoGPT and llm.c
// support only some sizes.
constexpr unsigned kOthers = Formats(kGguf, kNanoGpt, kLlmc),
                   kSizesAlone = Formats(kNanoGpt, kLlmc);

std::vector<Limit> Gpt2Limits() {
  return {kOwnKvHeads,
          kHeadsOfC,
          {"scale_attn_weights", kOthers, [](const GptConfig& c) { return c.scale_attn_weights; }},
          {"scale_attn_by_inverse_layer_idx", kOthers,
           [](const GptConfig& c) { return !c.scale_attn_by_inverse_layer_idx; }},
          {"tie_word_embeddings", kSizesAlone,
           [](const GptConfig& c) { return c.tie_word_embeddings; }},
          {"n_inner", kSizesAlone, [](const GptConfig& c) { return c.inner() == 4 * c.n_embd; }},
          {"layer_norm_epsilon", kSizesAlone,
           [](const GptConfig& c) { return c.layer_norm_epsilon == 1e-5; }},
          {"activation_function", Formats(kGguf, kLlmc),
           [](const GptConfig& c) { return c.activation_function == Activation::kGeluNew; }},
          // nanoGPT computes the exact GELU, but loads GPT-2's weights all the same.
          {"activation_function", Formats(kNanoGpt), [](const GptConfig& c) {
             return c.activation_function == Activation::kGelu ||
                    c.activation_function == Activation::kGeluNew;
           }}};
}

// Parts that GPT-2 lacks have their own names here.
constexpr TensorRow FolioRow(std::string_view module, std::string_view hf) {
  return {module, {{{{hf}}, {}, {}, {}, {}}}};
}

}  // namespace

Family Gpt2Table() {
  return {
      .formats = Formats(kHuggingFace, kGguf, kNanoGpt, kLlmc, kOpenAi),
      .model_type = "gpt2",
      .architectures = {"GPT2LMHeadModel", "GPT2Model", "FolioLMHeadModel"},
      // The second name is that of other model types, which transformers' GPT2Config accepts too.
      .keys = {{"n_layer", {"n_layer", "num_hidden_layers"}},
               {"n_head", {"n_head", "num_attention_heads"}},
               {"n_embd", {"n_embd", "hidden_size"}},
               {"n_positions", {"n_positions", "max_position_embeddings"}}},
      .repeated_keys = {{"n_positions", {"n_ctx"}}},
      .fixed = {{"position_embedding", "learned"},
                {"norm_position", "pre"},
                {"causal", "true"},
                {"lm_head_bias", "false"}},
      .own = {"vocab_size",
              "n_inner",
              "activation_function",
              "layer_norm_epsilon",
              "scale_attn_weights",
              "scale_attn_by_inverse_layer_idx",
              "reorder_and_upcast_attn",
              "position_embedding",
              "norm_position",
              "causal",
              "bias",
              "attention_bias",
              "mlp_bias",
              "layer_norm_bias",
              "lm_head_bias",
              "tie_word_embeddings",
              "embd_pdrop",
              "attn_pdrop",
              "resid_pdrop",
              "mlp_pdrop",
              "sublayer_pdrop",
              "init",
              "initializer_range",
              "init_zero_positions",
              "init_scaled_residuals",
              "bos_token_id",
              "eos_token_id"},
      .absent = R"({
    "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1, "bos_token_id": 50256,
    "eos_token_id": 50256})",
      .refused = Rows(kRefused),
      // For summary heads.
      .passed_over = {"summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                      "summary_type", "summary_use_proj"},
      .derived = {},
      .activation_prefix = "",
      .tensors = Gpt2Tensors(),
      .optional_prefix = "transformer.",
      // Buffers of the causal mask, which old files contain.
      .not_read = {".attn.bias", ".attn.masked_bias"},
      .all_biases = true,
      .enclosing = {},
      .gguf_architecture = "gpt2",
      .gguf_keys = {{"context_length", "n_positions"},
                    {"embedding_length", "n_embd"},
                    {"block_count", "n_layer"},
                    {"feed_forward_length", "n_inner"},
                    {"attention.head_count", "n_head"},
                    {"vocab_size", "vocab_size",
                     GgufKey::Use::kOnlyWritten},  // given by the embeddings
                    {"attention.layer_norm_epsilon", "layer_norm_epsilon",
                     GgufKey::Use::kOptional}},
      .gguf_unsaid = {},
      .gguf_by_tensors = {},
      .gguf_by_sizes = nullptr,
      .gguf_rope = RopeTensors::kNone,
      .limits = Gpt2Limits(),
  };
}

Family FolioTable() {
  Family family = Gpt2Table();
  family.formats = Formats(kHuggingFace);
  family.model_type = "folio";
  // folio's own format uses GPT-2's files for models that are no GPT-2.
  family.architectures = {"FolioLMHeadModel", "GPT2LMHeadModel", "GPT2Model"};
  family.fixed = {};
  // transformers has no such class: a token that is not named does not exist.
  family.absent = R"({"embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1})";
  family.activation_prefix = "folio:";
  family.tensors = Rows(family.tensors,
                        {FolioRow("attn.q_norm", "transformer.h.{}.attn.q_norm.weight"),
                         FolioRow("attn.k_norm", "transformer.h.{}.attn.k_norm.weight"),
                         FolioRow("ln_attn", "transformer.h.{}.ln_attn.weight"),
                         FolioRow("ln_mlp", "transformer.h.{}.ln_mlp.weight"),
                         FolioRow("attn.value_embeds", "transformer.h.{}.attn.value_embeds.weight"),
                         FolioRow("attn.value_gate", "transformer.h.{}.attn.value_gate.weight"),
                         FolioRow("smear_gate", "transformer.smear_gate.weight"),
                         FolioRow("smear_lambda", "transformer.smear_lambda.weight"),
                         FolioRow("resid_lambdas", "transformer.resid_lambdas.weight"),
                         FolioRow("x0_lambdas", "transformer.x0_lambdas.weight"),
                         FolioRow("backout_lambda", "transformer.backout_lambda.weight")});
  family.all_biases = false;
  family.gguf_architecture = {};
  family.gguf_keys = {};
  family.limits = {};
  return family;
}

}  // namespace folio
