#include "folio/formats/nanochat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/torch_file.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/tensor/dtype.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelBegin = "model_", kModelEnd = ".pt";
constexpr uint64_t kMaxMeta = 1 << 20;

// The step of a file that is called model_NNNNNN.pt, or -1.
int64_t StepOf(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kModelBegin) || !name.ends_with(kModelEnd)) return -1;
  const char *begin = name.data() + kModelBegin.size(),
             *end = name.data() + name.size() - kModelEnd.size();
  int64_t step = -1;
  const auto [stop, error] = std::from_chars(begin, end, step);
  return begin < end && stop == end && error == std::errc() ? step : -1;
}

// meta_NNNNNN.json beside it.
fs::path MetaOf(const fs::path& model) {
  const std::string name = model.filename().string();
  const size_t begin = kModelBegin.size();
  const std::string number = name.substr(begin, name.size() - begin - kModelEnd.size());
  return model.parent_path() / fmt::format("meta_{}.json", number);
}

// The file of the last step in a directory, or the file itself; empty for what is neither.
fs::path ModelFile(const fs::path& path) {
  fs::path last;
  if (IsFile(path)) {
    last = StepOf(path) >= 0 ? path : fs::path();
  } else {
    for (const std::string& name : NamesIn(path)) {
      if (StepOf(name) < 0) continue;
      if (last.empty() || StepOf(last) < StepOf(name)) last = path / name;
    }
  }
  return last;
}

// The required settings of a model, and our names for them.
constexpr auto kModelConfig = std::to_array<std::pair<const char*, const char*>>({
    {"sequence_len", "n_positions"},
    {"vocab_size", "vocab_size"},
    {"n_layer", "n_layer"},
    {"n_head", "n_head"},
    {"n_kv_head", "n_kv_head"},
    {"n_embd", "n_embd"},
});
constexpr const char* kWindowPattern = "window_pattern";

// A letter of the pattern for each layer, over and over, but the last layer sees everything: S sees
// a quarter of the context, rounded up to 128 tokens, and the token itself.
void SetWindows(const std::string& pattern, Json& fields, const std::string& where) {
  if (pattern.empty() || pattern.find_first_not_of("SLsl") != std::string::npos) {
    throw InputError(fmt::format("{}: unknown window_pattern", where),
                     fmt::format("it is \"{}\"", pattern), "supported letters are S and L");
  }
  constexpr int64_t kTile = 128;
  const int64_t T = fields["n_positions"].get<int64_t>(), L = fields["n_layer"].get<int64_t>();
  const int64_t left = CeilDiv(CeilDiv(T, 4), kTile) * kTile;
  if (left + 1 >= T) return;
  std::string kinds;
  for (int64_t layer = 0; layer < L; ++layer) {
    const char letter = pattern[static_cast<size_t>(layer) % pattern.size()];
    kinds += (letter == 'S' || letter == 's') && layer + 1 < L ? 'w' : 'f';
  }
  fields["sliding_window"] = left + 1;
  fields["layer_kinds"] = ShortestPattern(kinds);
}

// The settings that nanochat's code has for all models.
Json AlwaysSo() {
  return {{"model_type", "folio"},
          {"norm", "rms_no_weight"},
          {"layer_norm_epsilon", 1.1920928955078125e-07},
          {"position_embedding", "rotary"},
          {"rope_theta", 100000},
          {"qk_norm", "after_rotary"},
          {"qk_scale", 1.2},
          {"activation_function", "relu2"},
          {"logit_cap", 15},
          {"bias", false},
          {"tie_word_embeddings", false},
          {"embedding_norm", true},
          {"smear", true},
          {"residual_lambdas", true},
          {"value_embeddings", true},
          {"backout", true},
          {"embd_pdrop", 0},
          {"attn_pdrop", 0},
          {"resid_pdrop", 0},
          {"init", "nanochat"}};
}

GptConfig ConfigOf(const fs::path& meta) {
  const std::string where = meta.string();
  if (!Exists(meta)) {
    throw InputError(fmt::format("{} is missing", where), "it gives the size of the model",
                     "copy it from the source of the model");
  }
  const Json json = ParseJson(ReadFile(meta, kMaxMeta), where);
  const Json* said = json.find("model_config");
  if (said == nullptr || !said->is_object()) {
    throw InputError(fmt::format("{}: no model_config", where), "it gives the size of the model",
                     "copy the checkpoint again");
  }
  Json fields = AlwaysSo();
  for (const auto& [key, field] : kModelConfig) {
    const Json* value = said->find(key);
    const bool fits = value != nullptr && value->is_number_integer() && value->get<double>() > 0 &&
                      value->get<double>() <= 1 << 30;
    if (!fits) {
      throw InputError(fmt::format("{}: model_config has no {}", where, key),
                       fmt::format("found {}", value == nullptr ? "nothing" : value->dump()),
                       "expected a number of at least 1");
    }
    fields[field] = *value;
  }
  if (fields["n_layer"].get<int64_t>() > 65535) {
    throw InputError(fmt::format("{}: n_layer is {}", where, fields["n_layer"].dump()));
  }
  for (const auto& [key, value] : said->items()) {
    const bool known =
        key == kWindowPattern || std::ranges::any_of(kModelConfig, [&name = key](const auto& one) {
          return name == one.first;
        });
    if (known) continue;
    throw InputError(fmt::format("{}: {} of model_config is not supported", where, key),
                     fmt::format("it is {}", value.dump()),
                     "folio reads checkpoints of nanochat since July 2026");
  }
  // Older models have no windows.
  if (const Json* pattern = said->find(kWindowPattern); pattern != nullptr) {
    SetWindows(pattern->is_string() ? std::string(pattern->text()) : "", fields, where);
  }
  GptConfig config = GptConfigFromJson(fields.dump(), where);
  config.model_type.clear();
  return WithoutRedundantSizes(config);
}

// The weights, with the names that they have where torch.compile added nothing, and without the
// rows of tables that stand for no token: nanochat pads these to a multiple of 64.
class NanochatFile : public TensorFile {
 public:
  NanochatFile(const fs::path& path, Loading loading, int64_t vocab_size)
      : TensorFile(path), file_(path, loading) {
    constexpr std::string_view kCompiled = "_orig_mod.";
    for (TensorInfo info : file_.tensors()) {
      if (info.name.starts_with(kCompiled)) info.name.erase(0, kCompiled.size());
      const bool table = info.name == "transformer.wte.weight" || info.name == "lm_head.weight" ||
                         info.name.starts_with("value_embeds.");
      if (table && info.shape.rank() == 2 && info.shape[0] > vocab_size) {
        info.shape = {vocab_size, info.shape[1]};
        info.bytes = DtypeBytes(info.dtype, info.shape.count());
      }
      if (Add(info)) continue;
      throw InputError(fmt::format("{}: tensor \"{}\" appears twice", path.string(), info.name));
    }
  }

 private:
  TorchFile file_;
};

// tokenizer.pkl, which nanochat keeps in a directory of its own beside those of checkpoints.
fs::path FindTokenizerFile(const fs::path& model) {
  const fs::path dir = fs::absolute(model).parent_path();
  const fs::path home = dir.parent_path().parent_path();
  for (const fs::path& place :
       {dir, dir / "tokenizer", dir.parent_path() / "tokenizer", home / "tokenizer"}) {
    if (Exists(place / kNanochatTokenizerFile)) return place / kNanochatTokenizerFile;
  }
  return {};
}

void AddTokenizer(const fs::path& model, FoundModel& found) {
  GptConfig& config = found.model.config;
  const fs::path path = FindTokenizerFile(model);
  if (path.empty()) {
    found.tokenizer_help = "copy nanochat's tokenizer/tokenizer.pkl beside the model";
    return;
  }
  found.tokenizer = ReadNanochatTokenizer(path);
  if (found.tokenizer->vocab_size() > config.vocab_size) {
    throw InputError(fmt::format("{}: the tokenizer belongs to another model", path.string()),
                     fmt::format("it has {} tokens, the model {}", found.tokenizer->vocab_size(),
                                 config.vocab_size),
                     "put the model's own tokenizer.pkl beside it");
  }
  for (const SpecialToken& token : found.tokenizer->special_tokens()) {
    if (token.text == "<|bos|>") config.bos_token_id = token.id;
    if (token.text == "<|assistant_end|>") config.eos_token_id = token.id;
  }
  // A base model ends a document with the token that begins the next.
  if (!config.eos_token_id) {
    config.eos_token_id = config.bos_token_id;
  } else if (config.bos_token_id) {
    config.more_eos_token_ids = {*config.bos_token_id};
  }
}

}  // namespace

bool IsNanochat(const fs::path& path) {
  const fs::path file = ModelFile(path);
  return !file.empty() && IsTorchFile(file);
}

FoundModel OpenNanochat(const fs::path& path, Loading loading) {
  const fs::path model = ModelFile(path);
  const GptConfig config = ConfigOf(MetaOf(model));
  const auto file = std::make_shared<const NanochatFile>(model, loading, config.vocab_size);
  RequireBlocks(config, std::ssize(file->tensors()), model.string());
  const auto families = Families();
  const auto family = std::ranges::find(families, "nanochat", &Family::model_type);
  const auto refuse = [&](const TensorInfo& info) {
    throw InputError(
        fmt::format("{}: tensor '{}' is not part of the model", model.string(), info.name),
        "folio reads checkpoints of nanochat since July 2026");
  };
  FoundModel found{.model = FindParams(config, file, *family, FileFormat::kNanochat, refuse)};
  AddTokenizer(model, found);
  return found;
}

}  // namespace folio
