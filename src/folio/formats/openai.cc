#include "folio/formats/openai.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "folio/base/error.h"
#include "folio/formats/renamed_fields.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/tf_bundle.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/text/encodings.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kHparams[] = "hparams.json", kCheckpointState[] = "checkpoint";
constexpr uint64_t kMaxText = 1 << 20;

// model_checkpoint_path: "NAME"; of a path, which is of another machine, the name.
std::string PrefixName(const fs::path& dir) {
  constexpr std::string_view kField = "model_checkpoint_path: \"";
  if (!Exists(dir / kCheckpointState)) return "model.ckpt";
  const std::string text = ReadFile(dir / kCheckpointState, kMaxText);
  const size_t at = text.find(kField);
  if (at == text.npos) return "model.ckpt";
  const size_t begin = at + kField.size();
  const std::string path = text.substr(begin, text.find('"', begin) - begin);
  return fs::path(path).filename().string();
}

constexpr auto kHparamNames = std::to_array<RenamedField>({
    {"n_vocab", {"vocab_size"}},
    {"n_ctx", {"n_positions"}},
    {"n_embd", {"n_embd"}},
    {"n_head", {"n_head"}},
    {"n_layer", {"n_layer"}},
});

}  // namespace

bool IsOpenAiCheckpoint(const fs::path& path) {
  return Exists(path / kHparams) && Exists(path / (PrefixName(path) + ".index"));
}

FoundModel OpenOpenAiCheckpoint(const fs::path& path, Loading loading) {
  const auto file = std::make_shared<const TfBundle>(path / PrefixName(path), loading);
  const fs::path hparams = path / kHparams;
  const Json values = ParseJson(ReadFile(hparams, kMaxText), hparams.string());
  const Json fields = FieldsFrom(values, "gelu_new", kHparamNames, hparams.string() + ":");
  const GptConfig config = GptConfigFromJson(fields.dump(), hparams.string());
  RequireBlocks(config, std::ssize(file->tensors()), hparams.string());
  const auto refuse = [&](const TensorInfo& info) {
    if (info.name.ends_with("/Adam") || info.name.ends_with("/Adam_1")) return;  // its moments
    throw InputError(
        fmt::format("{}: tensor '{}' is not part of the model", file->path().string(), info.name),
        "hparams.json describes a model without it");
  };
  FoundModel found{
      .model = FindParams(config, file, Gpt2Family(), FileFormat::kOpenAi, refuse, "model/")};
  if (!TokenizerFiles((path / "").string()).empty()) {
    found.tokenizer = LoadTokenizer(path.string());
    found.model.config.bos_token_id = found.model.config.eos_token_id =
        found.tokenizer->end_of_text();
  } else {
    UseGpt2Encoding(found, "put encoder.json and vocab.bpe beside the checkpoint");
  }
  return found;
}

}  // namespace folio
