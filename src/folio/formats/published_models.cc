#include "folio/formats/published_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "folio/base/strings.h"
#include "folio/model_files/config_json.h"

namespace folio {
namespace {

// The hash and the size of a file; none for a file that a model does not have.
struct Contents {
  std::string_view sha256 = {};
  int64_t bytes = 0;
};

// The files of a tokenizer, of which a model may lack the last two.
constexpr std::array<std::string_view, 4> kTokenizerFiles = {
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"};
using TokenizerContents = std::array<Contents, kTokenizerFiles.size()>;

// A model in a commit of a repository.
struct Row {
  std::string_view name, summary, sizes, repository, commit;
  Contents config, generation;
  TokenizerContents tokenizer;
  Contents weights;
};

// GPT-2's models of all sizes have one tokenizer, and SmolLM2's have one.
constexpr TokenizerContents kGpt2Tokenizer = {
    {{"8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6", 1355256},
     {"5e04eb606e3a1583530a42e36c2a6b6615c86f34fe77e44d9ddeb43ff940931f", 26},
     {"196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783", 1042301},
     {"1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456318}}};
constexpr TokenizerContents kSmolTokenizer = {
    {{"9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c", 2104556},
     {"4ec77d44f62efeb38d7e044a1db318f6a939438425312dfa333b8382dbad98df", 3764}}};
constexpr Contents kSmolGeneration = {
    "87b916edaaab66b3899b9d0dd0752727dff6666686da0504d89ae0a6e055a013", 132};

// The numbers of bytes of the two largest of GPT-2 are limits.
constexpr Row kRows[] = {
    {"gpt2",
     "124M parameters; modified MIT licence",
     R"({"model_type":"gpt2","n_layer":12,"n_head":12,"n_embd":768})",
     "openai-community/gpt2",
     "607a30d783dfa663caf39e06633721c8d4cfcd7e",
     {"0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4", 665},
     {"ed0b32ac72c0f5f44a719abb2d7786ea5146c871f83717b7f2018065954de02b", 124},
     kGpt2Tokenizer,
     {"248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707", 548105171}},
    {"gpt2-medium",
     "355M parameters; modified MIT licence",
     R"({"model_type":"gpt2","n_layer":24,"n_head":16,"n_embd":1024})",
     "openai-community/gpt2-medium",
     "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
     {"ef1a44d889ad1a0acc7731c78134f1b87d2d222f110e97dd10fd4117331caf22", 718},
     {"b90eadacf585a743a30ea51e8b5c88b8d282a2a34dc0c7e556d0987cdbd68805", 124},
     kGpt2Tokenizer,
     {"fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd", 1519984962}},
    {"gpt2-large",
     "774M parameters; modified MIT licence",
     R"({"model_type":"gpt2","n_layer":36,"n_head":20,"n_embd":1280})",
     "openai-community/gpt2-large",
     "32b71b12589c2f8d625668d2335a01cac3249519",
     {"7fccdcfd6622055342a734c663ee0b61ff4fd697f42467595df0bf4448c8c170", 666},
     {},
     kGpt2Tokenizer,
     {"5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce", 3247160000}},
    {"gpt2-xl",
     "1558M parameters; modified MIT licence",
     R"({"model_type":"gpt2","n_layer":48,"n_head":25,"n_embd":1600})",
     "openai-community/gpt2-xl",
     "15ea56dee5df4983c59b2538573817e1667135e2",
     {"be48115d52314bc27327e160bf10197760db02ea689d10adb24db4102edf7a8a", 689},
     {"b90eadacf585a743a30ea51e8b5c88b8d282a2a34dc0c7e556d0987cdbd68805", 124},
     kGpt2Tokenizer,
     {"0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a", 6431830000}},
    {"smollm2-135m",
     "135M parameters, answers; Apache 2.0",
     R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":576,"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"intermediate_size":1536,"vocab_size":49152,"max_position_embeddings":8192,"tie_word_embeddings":true,"hidden_act":"silu","rms_norm_eps":1e-6})",
     "HuggingFaceTB/SmolLM2-135M-Instruct",
     "12fd25f77366fa6b3b4b768ec3050bf629380bac",
     {"8eb740e8bbe4cff95ea7b4588d17a2432deb16e8075bc5828ff7ba9be94d982a", 861},
     kSmolGeneration,
     kSmolTokenizer,
     {"5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c", 269060552}},
    {"smollm2-360m",
     "362M parameters, answers; Apache 2.0",
     R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":960,"num_hidden_layers":32,"num_attention_heads":15,"num_key_value_heads":5,"intermediate_size":2560,"vocab_size":49152,"max_position_embeddings":8192,"tie_word_embeddings":true,"hidden_act":"silu","rms_norm_eps":1e-6})",
     "HuggingFaceTB/SmolLM2-360M-Instruct",
     "a10cc1512eabd3dde888204e902eca88bddb4951",
     {"224f72354f10d617a359cc82ad15a3c96e866b9b2ffadb81997eeea9e88e22ee", 846},
     kSmolGeneration,
     kSmolTokenizer,
     {"e6bffe7435d7ddc10fd3b9a9efd429dafbacb1cb17015fb5562664e7532bf86e", 723674912}},
    {"qwen2.5-0.5b",
     "494M parameters, answers; Apache 2.0",
     R"({"model_type":"qwen2","architectures":["Qwen2ForCausalLM"],"hidden_size":896,"num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,"intermediate_size":4864,"vocab_size":151936,"max_position_embeddings":32768,"tie_word_embeddings":true,"hidden_act":"silu","rms_norm_eps":1e-6})",
     "Qwen/Qwen2.5-0.5B-Instruct",
     "7ae557604adf67be50417f59c2c2f167def9a775",
     {"18e18afcaccafade98daf13a54092927904649e1dd4eba8299ab717d5d94ff45", 659},
     {"e558847a8b4402616f1273797b015104dc266fe4b520056fca88823ba8f8ebe6", 242},
     {{{"c0382117ea329cdf097041132f6d735924b697924d6f6fc3945713e96ce87539", 7031645},
       {"5b5d4f65d0acd3b2d56a35b56d374a36cbc1c8fa5cf3b3febbbfabf22f359583", 7305}}},
     {"fdf756fa7fcbe7404d5c60e26bff1a0c8b8aa1f72ced49e7dd0210fe288fb7fe", 988097824}},
    {"qwen3-0.6b",
     "596M parameters, answers; Apache 2.0",
     R"({"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":1024,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,"intermediate_size":3072,"vocab_size":151936,"max_position_embeddings":40960,"tie_word_embeddings":true,"hidden_act":"silu","rms_norm_eps":1e-6,"head_dim":128})",
     "Qwen/Qwen3-0.6B",
     "c1899de289a04d12100db370d81485cdf75e47ca",
     {"660db3b73d788119c04535e48cf9be5f55bc3100841a718637ae695b442f27dd", 726},
     {"2325da0f15bb848e018c5ae071b7943332e9f871d6b60e2ed22ca97d4cb993d2", 239},
     {{{"aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4", 11422654},
       {"d5d09f07b48c3086c508b30d1c9114bd1189145b74e982a265350c923acd8101", 9732}}},
     {"f47f71177f32bcd101b7573ec9171e6a57f4f4d31148d38e382306f42996874b", 1503300328}},
    {"tinyllama",
     "1100M parameters, answers; Apache 2.0",
     R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":2048,"num_hidden_layers":22,"num_attention_heads":32,"num_key_value_heads":4,"intermediate_size":5632,"vocab_size":32000,"max_position_embeddings":2048,"tie_word_embeddings":false,"hidden_act":"silu","rms_norm_eps":1e-6})",
     "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
     "fe8a4ea1ffedaf415f4da2f062534de366a451e6",
     {"486bedda3a6988332e60d9638a09ca4b260d34ebcf1b19e22cf3b140b63d8fe9", 608},
     {"18046d04f5bd8b4998095ecabdd17a1bf0053d9acdccead4a05be4a3575f3c5c", 124},
     {{{"bcd04f0eadf90287bd26e1a183ac487d8a141b09b06aecb7725bbdd343640f2e", 1842767},
       {"7b41ba7d0eb91e77914ca3dafde559ea3e19878769b7e68409e89bed5222e77a", 1289}}},
     {"6e6001da2106d4757498752a021df6c2bdc332c650aae4bae6b0c004dcf14933", 2200119864}}};

std::vector<PublishedModel> MakeModels() {
  constexpr std::string_view kSite = "https://huggingface.co";
  static std::deque<std::string> addresses;  // which the files point to
  std::vector<PublishedModel> models;
  for (const Row& row : kRows) {
    const bool gpt2 = row.name.starts_with("gpt2");
    PublishedModel& model = models.emplace_back(PublishedModel{
        row.name,
        row.summary,
        fmt::format("{}/{}/tree/{}", kSite, row.repository, gpt2 ? "main" : row.commit),
        row.sizes,
        {}});
    const auto add = [&](std::string_view file, const Contents& contents, const Row& from) {
      if (contents.sha256.empty()) return;
      const std::string& url = addresses.emplace_back(
          fmt::format("{}/{}/resolve/{}/{}", kSite, from.repository, from.commit, file));
      model.files.push_back({file, url, contents.sha256, contents.bytes});
    };
    add("config.json", row.config, row);
    add("generation_config.json", row.generation, row);
    for (size_t i = 0; i < kTokenizerFiles.size(); ++i) {
      add(kTokenizerFiles[i], row.tokenizer[i], gpt2 ? kRows[0] : row);
    }
    add("model.safetensors", row.weights, row);
  }
  return models;
}

}  // namespace

std::span<const PublishedModel> PublishedModels() {
  static const std::vector<PublishedModel> models = MakeModels();
  return models;
}

std::vector<std::string> PublishedModelNames() {
  std::vector<std::string> names;
  for (const PublishedModel& model : PublishedModels()) names.emplace_back(model.name);
  return names;
}

std::string HelpForModelName(std::string_view name) {
  // Models that are used as a service alone, by how their names begin.
  constexpr std::string_view kClosed[] = {"gpt3", "gpt4",  "gpt5",  "chatgpt", "claude",
                                          "o1",   "o3",    "o4",    "gemini",  "davinci",
                                          "grok", "codex", "palm2", "copilot", "textdavinci"};
  std::string letters, word;  // "GPT-2" as "gpt2" and "gpt-2", "smollm2:135m" as "smollm2-135m"
  for (const char c : LowerAscii(name)) {
    word += c == ':' || c == '_' || c == ' ' ? '-' : c;
    if (word.back() != '-' && word.back() != '.') letters += c;
  }
  const auto begins = [&](std::string_view closed) { return letters.starts_with(closed); };
  if (std::ranges::any_of(kClosed, begins)) {
    return fmt::format(
        "the weights of {} are not published; folio fetch --list lists published models, such as "
        "gpt2 and smollm2-135m",
        name);
  }
  const std::vector<std::string> names = PublishedModelNames();
  const auto found = std::ranges::find_if(names, [&](const std::string& published) {
    return word.size() > 3 && (published.starts_with(word) || word.starts_with(published));
  });
  const std::string nearest = found != names.end() ? *found : Nearest(word, names);
  if (!nearest.empty()) {
    return fmt::format("did you mean {0}? folio fetch {0} downloads it", nearest);
  }
  return "give a run, a model directory or a model file; folio fetch --list lists the published "
         "models";
}

const PublishedModel* FindPublishedModel(std::string_view name) {
  const auto models = PublishedModels();
  const auto model = std::ranges::find(models, name, &PublishedModel::name);
  return model == models.end() ? nullptr : &*model;
}

GptConfig SizesOf(const PublishedModel& model) {
  return GptConfigFromJson(model.config, std::string(model.name));
}

std::filesystem::path PublishedModelDir(const PublishedModel& model) {
  const std::filesystem::path home = FetchedHome("models");
  return home.empty() ? home : home / model.name;
}

}  // namespace folio
