#include "folio/formats/llmc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/formats/gpt2_encoding.h"
#include "folio/formats/llmc_tokenizer.h"
#include "folio/io/byte_reader.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/families.h"
#include "folio/tensor/convert.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeaderInts = 256, kHeaderBytes = kHeaderInts * sizeof(int32_t);
constexpr int32_t kMagic = 20240326, kFloat32 = 3, kBFloat16 = 5;
constexpr int64_t kPadding = 128;
constexpr int64_t kMaxTensors = 4096;  // so that a small file cannot ask for a large table

int64_t PaddedTo(int64_t vocab_size) {
  return (vocab_size + kPadding - 1) / kPadding * kPadding;
}

// The sizes that the header begins with.
constexpr std::array<std::pair<const char*, int64_t GptConfig::*>, 5> kSizes = {{
    {"n_positions", &GptConfig::n_positions},
    {"vocab_size", &GptConfig::vocab_size},
    {"n_layer", &GptConfig::n_layer},
    {"n_head", &GptConfig::n_head},
    {"n_embd", &GptConfig::n_embd},
}};

// The order of the parameters in the file, as indices in the list of a model with all biases: the
// first of its kind in the list, then those of the same kind in the other blocks.
std::vector<size_t> FileOrder(const ParamTable& table) {
  std::vector<size_t> first, order;
  for (size_t i = 0; i < table.params().size(); ++i) {
    const auto same = [&](const ParamInfo& other) {
      return other.module == table.params()[i].module && other.part == table.params()[i].part;
    };
    first.push_back(
        static_cast<size_t>(std::ranges::find_if(table.params(), same) - table.params().begin()));
    order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return first[i]; });
  return order;
}

class LlmcFile : public TensorFile {
 public:
  LlmcFile(const fs::path& path, Loading loading);

  const GptConfig& config() const { return config_; }

 private:
  int64_t ReadHeader(ByteReader& reader);

  GptConfig config_;
  Dtype dtype_ = Dtype::kF32;
};

// Returns the padded size of the vocabulary.
int64_t LlmcFile::ReadHeader(ByteReader& reader) {
  if (reader.Number<int32_t>() != kMagic) reader.Fail("it begins with another number");
  const auto version = reader.Number<int32_t>();
  if (version != kFloat32 && version != kBFloat16) {
    throw InputError(fmt::format("{}: version {} of llm.c's model files", path().string(), version),
                     fmt::format("folio reads {} (float32) and {} (bfloat16)", kFloat32, kBFloat16),
                     "write it again with a newer llm.c: python train_gpt2.py");
  }
  dtype_ = version == kFloat32 ? Dtype::kF32 : Dtype::kBF16;
  Json fields = {{"activation_function", "gelu_new"}};
  for (const auto& size : kSizes) fields[size.first] = reader.Number<int32_t>();
  for (const char* name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) fields[name] = 0;
  config_ = GptConfigFromJson(fields.dump(), path().string());
  RequireBlocks(config_, Gpt2Family(), kMaxTensors, path().string());
  const auto padded = reader.Number<int32_t>();
  if (padded < config_.vocab_size) {
    reader.Fail(fmt::format("a vocabulary of {}, padded to {}", config_.vocab_size, padded));
  }
  reader.Seek(kHeaderBytes);
  return padded;
}

LlmcFile::LlmcFile(const fs::path& path, Loading loading) : TensorFile(path) {
  ByteReader reader(Open(path, loading),
                    fmt::format("{} is not a sound model file of llm.c", path.string()));
  const int64_t padded = ReadHeader(reader);
  const ParamTable table(config_);
  const auto size = static_cast<int64_t>(DtypeSize(dtype_));
  for (const size_t i : FileOrder(table)) {
    const ParamInfo& param = table.params()[i];
    TensorInfo info{.name = NameInFiles(Gpt2Family(), FileFormat::kLlmc, param),
                    .dtype = dtype_,
                    .shape = ShapeInFiles(Gpt2Family(), FileFormat::kLlmc, param)};
    info.bytes = static_cast<uint64_t>(param.shape.count() * size);
    info.data = reader.Bytes(info.bytes).data();
    if (i == 0) {
      reader.Bytes(static_cast<uint64_t>((padded - config_.vocab_size) * config_.n_embd * size));
    }
    Add(std::move(info));
  }
  if (reader.left() != 0) reader.Fail(fmt::format("{} bytes too many", reader.left()));
}

void WriteTokenizer(const fs::path& model, const Tokenizer& tokenizer) {
  const std::string bytes = LlmcTokenizerBytes(tokenizer);
  if (bytes.empty()) {
    throw InputError(
        fmt::format("llm.c's {} cannot hold the tokenizer of this model", kLlmcTokenizerFile),
        fmt::format("it has {} tokens of kind {}, and the file only the bytes of each, up to 255: "
                    "with those it would be another",
                    tokenizer.vocab_size(), tokenizer.kind()),
        "convert it to another format");
  }
  const fs::path path = model.parent_path() / kLlmcTokenizerFile;
  if (!fs::exists(path)) return WriteFileAtomically(path, bytes);
  std::error_code ignored;
  const bool same_size = fs::file_size(path, ignored) == bytes.size();
  if (same_size && ReadFile(path, bytes.size()) == bytes) return;
  throw InputError(fmt::format("{}: not replaced", path.string()),
                   "it is another tokenizer, and that of this model would have the same name",
                   "write the model to another directory");
}

}  // namespace

bool IsLlmc(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  const MappedFile file(path);
  int32_t magic = 0;
  if (file.bytes().size() >= sizeof(magic)) {
    std::memcpy(&magic, file.bytes().data(), sizeof(magic));
  }
  return magic == kMagic;
}

FoundModel OpenLlmc(const fs::path& path, Loading loading) {
  const auto file = std::make_shared<const LlmcFile>(path, loading);
  FoundModel found{.model = FindParams(file->config(), file, Gpt2Family(), FileFormat::kLlmc,
                                       [](const TensorInfo&) {})};
  const fs::path tokenizer = path.parent_path() / kLlmcTokenizerFile;
  if (fs::exists(tokenizer)) found.tokenizer = ReadLlmcTokenizer(tokenizer);
  if (found.tokenizer == nullptr) {
    UseGpt2Encoding(found, "put llm.c's gpt2_tokenizer.bin beside the model");
  } else if (found.tokenizer->vocab_size() > file->config().vocab_size) {
    throw InputError(fmt::format("{}: the tokenizer of another model", tokenizer.string()),
                     fmt::format("it has {} tokens, the model {}", found.tokenizer->vocab_size(),
                                 file->config().vocab_size),
                     "move one of them to a directory of its own");
  }
  if (found.tokenizer != nullptr) {
    found.model.config.bos_token_id = found.model.config.eos_token_id =
        found.tokenizer->end_of_text();
  }
  return found;
}

void SaveLlmc(const fs::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireExpressed(config, FileFormat::kLlmc, "llm.c cannot run this model");
  const int64_t padded = PaddedTo(config.vocab_size);
  std::array<int32_t, kHeaderInts> header = {kMagic,
                                             model.dtype == Dtype::kF32 ? kFloat32 : kBFloat16};
  size_t next = 2;
  for (const auto& size : kSizes) header[next++] = static_cast<int32_t>(config.*size.second);
  header[next] = static_cast<int32_t>(padded);
  AtomicFile file(path);
  file.Write(std::as_bytes(std::span(header)));
  const GptConfig described = WithBiases(config);
  std::vector<TensorToWrite> tensors =
      TensorsToWrite(model.weights, described, Gpt2Family(), FileFormat::kLlmc, model.dtype);
  for (const size_t i : FileOrder(ParamTable(described))) {
    tensors[i].dtype = model.dtype;  // norms and biases too
    EncodeTensor(tensors[i], [&](std::span<const std::byte> bytes) { file.Write(bytes); });
    if (i > 0) continue;
    const auto pad = static_cast<size_t>((padded - config.vocab_size) * config.n_embd);
    file.Write(std::string(pad * DtypeSize(model.dtype), '\0'));
  }
  if (model.tokenizer != nullptr) WriteTokenizer(fs::absolute(path), *model.tokenizer);
  file.Commit();
}

}  // namespace folio
