#include "folio/formats/model_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/formats/fetched_models.h"
#include "folio/formats/gguf_model.h"
#include "folio/formats/llmc.h"
#include "folio/formats/nanochat.h"
#include "folio/formats/nanogpt.h"
#include "folio/formats/openai.h"
#include "folio/formats/published_models.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/placeholder.h"
#include "folio/io/posix.h"
#include "folio/model/gpt.h"
#include "folio/model/lora.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/base_model.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/encodings.h"
#include "folio/text/published_encodings.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Hugging Face's model directory, which is folio's own too, or the weights in it alone:
// model_files/checkpoint.h with the tokenizer.

// Opening it says what is missing.
bool IsHfDirectory(const fs::path& path) {
  return IsDirectory(path) || (IsFile(path) && IsWeightsName(path));
}

FoundModel OpenHfDirectory(const fs::path& path, Loading loading) {
  FoundModel found{.model = OpenModelDir(path, loading)};
  const std::string dir = (DirOfModel(path) / "").string();
  found.tokenizer_help = OtherTokenizerIn(dir);
  if (found.tokenizer_help.empty() && !TokenizerFiles(dir).empty()) {
    found.tokenizer = LoadTokenizer(dir);
  }
  found.sampling = ReadSuggestedSampling(fs::path(dir));
  return found;
}

void SaveHfDirectory(const fs::path& path, const ModelToSave& model) {
  const MadeParents parents(path);
  AtomicDirectory dir(path);
  SaveModel(dir.path(), model.weights, {.dtype = model.dtype});
  if (model.tokenizer != nullptr) model.tokenizer->Save(dir.path().string());
  dir.Commit();
}

std::vector<ListedTensor> ListHfTensors(const fs::path& path) {
  return ListTensors(*OpenWeights(path));
}

// An adapter by itself, with the name of the model that it is for.
bool IsAdapterOfModel(const fs::path& path) {
  return Exists(path / kBaseModelFile);
}

FoundModel OpenAdapterOfModel(const fs::path& path, Loading loading) {
  FoundModel found = FindBaseModel(path, loading);
  found.model = WithAdapter(found.model, path);
  const std::string dir = (path / "").string();
  if (!TokenizerFiles(dir).empty()) found.tokenizer = LoadTokenizer(dir);
  return found;
}

// PublishedModelDir if the files are there. Throws a kInput Error that says how to get them.
fs::path FetchedModelDir(const PublishedModel& model) {
  fs::path dir = PublishedModelDir(model);
  std::vector<std::string> missing;
  for (const PublishedFile& file : model.files) {
    if (!Exists(dir / file.name)) missing.emplace_back(file.name);
  }
  if (missing.empty()) return dir;
  throw InputError(fmt::format("the model {} is not on this machine", model.name),
                   dir.empty() ? "there is no directory to look in: set HOME or FOLIO_HOME"
                               : fmt::format("{} not in {}", Join(missing, ", "), dir.string()),
                   fmt::format("download it: folio fetch {}", model.name));
}

// Throws a kInput Error that says how to fetch a repository of that name, if it is one's.
void RequireTypedOrFetched(const fs::path& path) {
  try {
    RequireTyped(path);
  } catch (const Error& error) {
    if (!ParseRepositoryModel(path.string())) throw;
    throw Error(error.kind(), error.what(), error.cause(),
                fmt::format("{}; folio fetch {} downloads a repository of that name", error.help(),
                            path.string()));
  }
}

fs::path Located(const fs::path& path) {
  if (!Exists(path)) {
    if (const auto* published = FindPublishedModel(path.string()))
      return FetchedModelDir(*published);
    if (fs::path fetched = FindFetchedModel(path.string()); !fetched.empty()) return fetched;
    const bool is_name = path.has_filename() && !path.has_parent_path();
    std::error_code ignored;
    if (is_name && fs::status(path, ignored).type() == fs::file_type::not_found) {
      throw InputError(fmt::format("no model '{}'", path.string()),
                       "nothing here has that name, and no published model has it",
                       HelpForModelName(path.string()));
    }
    RequireTypedOrFetched(path);
  }
  // The name of a tokenizer, too, is a path here.
  const bool name = path == "bytes" || FindPublishedEncoding(path.string()) != nullptr;
  return name ? "." / path : path;
}

// Throws a kInput Error where a checkpoint is not what it was when it was saved.
void RequireSound(const fs::path& at) {
  const fs::path list = at / kChecksumsFile;
  std::error_code ignored;
  if (!IsDirectory(at)) return;
  for (fs::file_time_type listed;;) {
    const auto before = std::exchange(listed, fs::last_write_time(list, ignored));
    try {
      VerifyChecksums(at, /*below=*/false);
      return;
    } catch (const Error& error) {
      // A run that goes on may have put a newer checkpoint there meanwhile.
      if (listed != before) continue;
      // The error of a list that was not copied along says already what to do.
      if (error.kind() != ErrorKind::kInput || !Exists(list)) throw;
      const fs::path run = at.parent_path();
      const bool best = at.filename() == kBestDir && Exists(run / kLastDir);
      throw InputError(
          error.what(), error.cause(),
          (best
               ? fmt::format("{} is the newest checkpoint; folio train --resume --out {} makes the "
                             "best one again",
                             (run / kLastDir).string(), run.string())
               : std::string("take another checkpoint or a copy of this one")) +
              fmt::format("; where the change is meant, remove {}, and \"{}\" from {}",
                          list.string(), kChecksumsKey, kConfigFile));
    }
  }
}

[[noreturn]] void Differ(std::string cause) {
  throw RuntimeError("the written model differs from the original", std::move(cause),
                     "the output was removed; this is a bug in folio or a disk error");
}

// Files of which model directories consist.
bool IsPartOfModel(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".safetensors") || name == "merges.txt" ||
         name == "ckpt.pt" || name == "meta.pkl";
}

void RequireDtype(const ModelFormat& format, Dtype dtype, bool mixed) {
  if (std::ranges::count(format.dtypes, dtype) > 0) return;
  std::vector<std::string> held, others;
  for (const Dtype one : format.dtypes) held.push_back(NameOfSaved(one));
  for (const ModelFormat& other : ModelFormats()) {
    if (std::ranges::count(other.dtypes, dtype) > 0) others.emplace_back(other.name);
  }
  throw UsageError(
      fmt::format("{} holds no matrices of {}", format.name, NameOfSaved(dtype, mixed)),
      fmt::format("it holds {}", fmt::join(held, ", ")),
      others.empty() ? "choose one of these"
                     : fmt::format("choose one of these, or {}, which holds {} too",
                                   fmt::join(others, " or "), NameOfSaved(dtype, mixed)));
}

void CheckTarget(const Conversion& conversion, const fs::path& from) {
  std::error_code ignored;
  if (fs::equivalent(from, conversion.to, ignored)) {
    throw UsageError(fmt::format("{} is both source and destination", conversion.to.string()),
                     "a model is not written over what it is read from", "name another place");
  }
  if (IsDirectory(conversion.to)) {
    CheckReplaceable(conversion.to.string(), "model", conversion.overwrite, IsPartOfModel);
  } else {
    CheckNewFile(conversion.to.string(), conversion.overwrite);
  }
}

// Returns the path of the result without a slash at its end.
fs::path TargetOf(const Conversion& conversion) {
  if (conversion.to.empty()) {
    throw UsageError("no place to write the model to", "its path is empty",
                     "name a new file or directory");
  }
  return conversion.to.has_filename() ? conversion.to : conversion.to.parent_path();
}

// HoldsEncoded for a parameter that lies in a file as several tensors, or in another order of rows,
// or with an offset.
bool RowsHoldEncoded(const StoredParam& stored, const Tensor* source) {
  const bool vector = stored.from.shape.rank() == 1;
  const int64_t columns = vector ? 1 : stored.from.shape.back();
  std::atomic<bool> same = true;
  int64_t first = 0;
  for (const auto& [from, order] : stored.rows) {
    const size_t row_bytes = DtypeBytes(from.dtype, columns);
    ParallelRange(from.shape[0], 64,
                  [&, &tensor = from, how = order](int64_t begin, int64_t end, int) {
                    std::vector<float> numbers(static_cast<size_t>(columns));
                    std::vector<std::byte> bytes(row_bytes);
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t row = first + RowAt(how, stored.heads, r);
                      if (source != nullptr) {
                        GatherRows(vector ? source->Reshape({source->count(), 1}) : *source,
                                   stored.transposed, row, numbers);
                      }
                      AddOffset(-stored.add, numbers);
                      EncodeFloats(numbers, tensor.dtype, bytes.data());
                      const std::byte* at = tensor.data + static_cast<size_t>(r) * row_bytes;
                      if (std::memcmp(bytes.data(), at, row_bytes) != 0) same = false;
                    }
                  });
    first += from.shape[0];
  }
  return same;
}

// Returns whether `stored` holds the source's numbers as its dtype encodes them; zeros where there
// is no source.
bool HoldsEncoded(const StoredParam& stored, const Tensor* source) {
  if (!stored.rows.empty()) return RowsHoldEncoded(stored, source);
  constexpr int64_t kGrain = 1 << 15;
  const Shape& shape = stored.from.shape;
  const int64_t columns = shape.back(), rows = shape.count() / columns;
  const size_t row_bytes = DtypeBytes(stored.from.dtype, columns);
  std::atomic<bool> same = true;
  ParallelRange(rows, std::max<int64_t>(1, kGrain / columns), [&](int64_t begin, int64_t end, int) {
    std::vector<float> numbers(static_cast<size_t>((end - begin) * columns));
    std::vector<std::byte> bytes(static_cast<size_t>(end - begin) * row_bytes);
    if (source != nullptr) GatherRows(*source, stored.transposed, begin, numbers);
    EncodeFloats(numbers, stored.from.dtype, bytes.data());
    const std::byte* at = stored.from.data + static_cast<size_t>(begin) * row_bytes;
    if (std::memcmp(bytes.data(), at, bytes.size()) != 0) same = false;
  });
  return same;
}

// Returns how many tensors were compared.
int64_t CompareTensors(const GptWeights& source, const FoundModel& result,
                       const Conversion& conversion) {
  const Dtype dtype = conversion.dtype;
  auto ours = TensorsByName(source);
  const ParamTable table(result.model.config);
  for (size_t i = 0; i < table.params().size(); ++i) {
    const std::string& name = table.params()[i].name;
    const StoredParam& stored = result.model.params[i];
    if (i == 0 && !conversion.mixed && stored.from.dtype != dtype) {
      Differ(fmt::format("{} is {}, not {}", name, DtypeName(stored.from.dtype), DtypeName(dtype)));
    }
    const auto node = ours.extract(name);
    const Tensor* from = node.empty() ? nullptr : node.mapped();
    if (from != nullptr && from->shape() != table.params()[i].shape) {
      Differ(fmt::format("{} has another shape", name));
    }
    if (!HoldsEncoded(stored, from)) {
      Differ(fmt::format("{} has other numbers", name));
    }
  }
  // A head of its own that repeats the embeddings, perhaps but for what rounding takes, is read as
  // tied to them.
  const auto head = ours.find(fmt::format("{}.weight", kHeadName));
  if (head != ours.end() && result.model.config.tie_word_embeddings &&
      HoldsEncoded(result.model.params.front(), head->second)) {
    ours.erase(head);
  }
  if (!ours.empty()) Differ(fmt::format("{} is missing", ours.begin()->first));
  return std::ssize(table.params());
}

void CompareTokenizers(const Tokenizer* source, const Tokenizer* result) {
  if (source != nullptr && result == nullptr) {
    throw InputError("files of this format cannot hold the model's tokenizer",
                     fmt::format("it is of kind {}", source->kind()),
                     "convert it to another format, or give the model without a tokenizer");
  }
  // For a model without a tokenizer none was written, but a reader may find one.
  if (source == nullptr || source->hash() == result->hash()) return;
  if (source->vocab_size() != result->vocab_size() ||
      !std::ranges::equal(source->special_tokens(), result->special_tokens())) {
    Differ("the tokenizer has other tokens");
  }
  for (int32_t id = 0; id < source->vocab_size(); ++id) {
    const std::string_view bytes = source->TokenBytes(id);
    if (bytes != result->TokenBytes(id) ||
        source->EncodeOrdinary(bytes) != result->EncodeOrdinary(bytes)) {
      Differ(fmt::format("token {} of the tokenizer is another", id));
    }
  }
}

// Tokens from all over the vocabulary.
std::vector<int32_t> Prompt(const GptConfig& config) {
  constexpr int64_t kTokens = 16, kStep = 7919;
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < std::min(kTokens, config.n_positions); ++t) {
    ids.push_back(static_cast<int32_t>((t * kStep + 1) % config.vocab_size));
  }
  return ids;
}

std::vector<float> LogitsOf(Backend& backend, const GptWeights& weights,
                            std::span<const int32_t> ids) {
  const auto T = std::ssize(ids);
  const int64_t V = weights.config().vocab_size;
  GptPass pass(backend, weights.config(), 1, T, PassKind::kForward);
  pass.Forward(weights.params(), ids);
  std::vector<float> logits(static_cast<size_t>(T * V));
  pass.Logits(weights.params(), 0, T, Tensor(logits.data(), {T, V}));
  return logits;
}

void CompareLogits(const GptWeights& source, const FoundModel& result, Dtype dtype,
                   Converted& converted) {
  const std::vector<int32_t> ids = Prompt(source.config());
  const auto backend = MakeBackend("cpu");
  const std::vector<float> expected = LogitsOf(*backend, source, ids);
  const std::vector<float> found = LogitsOf(*backend, *MapWeights(result.model), ids);
  converted.prompt = std::ssize(ids);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double x = expected[i], y = found[i];
    if (!std::isfinite(x)) continue;  // in the source too
    if (!std::isfinite(y)) Differ("a logit is not finite");
    converted.logit_difference = std::max(converted.logit_difference, std::abs(x - y));
    converted.largest_logit = std::max(converted.largest_logit, std::abs(x));
  }
  const std::string_view had = NameOf(source.config().activation_function);
  const std::string_view has = NameOf(result.model.config.activation_function);
  if (had != has) {
    converted.note += fmt::format(
        "{}{} computes {} where the model was trained with {}: that is why the logits differ",
        converted.note.empty() ? "" : "; ", result.format, has, had);
  } else if (dtype == Dtype::kF32 && converted.logit_difference != 0) {
    Differ(fmt::format("logits differ by up to {:.3g}", converted.logit_difference));
  }
}

// Throws a kInput Error for a directory without weights of its own that has a GGUF file in it.
void RefuseGgufBeside(const fs::path& dir) {
  if (!IsDirectory(dir) || !FindWeightsFile(dir).empty()) return;
  std::vector<std::string> names = NamesIn(dir);
  std::ranges::sort(names);  // of a model in several files the first
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf")) continue;
    throw InputError(fmt::format("{}: no model found", dir.string()),
                     fmt::format("{} is one by itself", name),
                     fmt::format("give the file: {}", (dir / name).string()));
  }
}

}  // namespace

std::span<const ModelFormat> ModelFormats() {
  static constexpr std::array kGgufDtypes = {Dtype::kF32,  Dtype::kF16,  Dtype::kBF16, Dtype::kQ8_0,
                                             Dtype::kQ4_0, Dtype::kQ4_1, Dtype::kQ5_0, Dtype::kQ5_1,
                                             Dtype::kQ4_K, Dtype::kQ5_K, Dtype::kQ6_K};
  static constexpr std::array kLlmcDtypes = {Dtype::kF32, Dtype::kBF16};
  // Directories are not looked into before they are opened, so their format comes last.
  static constexpr std::array kFormats = {
      ModelFormat{.name = "adapter",
                  .title = "adapter (LoRA) and the model that it is for",
                  .recognises = IsAdapterOfModel,
                  .open = OpenAdapterOfModel},
      ModelFormat{.name = "gguf",
                  .title = "GGUF file",
                  .recognises = IsGguf,
                  .open = OpenGgufModel,
                  .save = SaveGgufModel,
                  .dtypes = kGgufDtypes,
                  .list = ListGgufTensors,
                  .ending = ".gguf"},
      ModelFormat{.name = "llmc",
                  .title = "llm.c model file",
                  .recognises = IsLlmc,
                  .open = OpenLlmc,
                  .save = SaveLlmc,
                  .dtypes = kLlmcDtypes,
                  .ending = ".bin"},
      ModelFormat{.name = "openai",
                  .title = "OpenAI's TensorFlow checkpoint",
                  .recognises = IsOpenAiCheckpoint,
                  .open = OpenOpenAiCheckpoint},
      ModelFormat{.name = "nanochat",
                  .title = "nanochat checkpoint",
                  .recognises = IsNanochat,
                  .open = OpenNanochat},
      ModelFormat{.name = "nanogpt",
                  .title = "nanoGPT checkpoint",
                  .recognises = IsNanoGpt,
                  .open = OpenNanoGpt,
                  .save = SaveNanoGpt,
                  .dtypes = kModelDirDtypes},
      ModelFormat{.name = "hf",
                  .title = "Hugging Face directory",
                  .recognises = IsHfDirectory,
                  .open = OpenHfDirectory,
                  .save = SaveHfDirectory,
                  .dtypes = kModelDirDtypes,
                  .more_tokens = true,
                  .list = ListHfTensors},
  };
  return kFormats;
}

std::unique_ptr<Tokenizer> TokenizerToSave(const ModelFormat& format, const Tokenizer* tokenizer) {
  const bool all = tokenizer == nullptr || format.more_tokens ||
                   tokenizer->known_tokens() == tokenizer->vocab_size();
  return all ? nullptr : OfKnownTokens(*tokenizer);
}

const ModelFormat& FormatOf(const fs::path& path) {
  const auto formats = ModelFormats();
  const auto format = std::ranges::find_if(
      formats, [&](const ModelFormat& candidate) { return candidate.recognises(path); });
  if (format != formats.end()) {
    if (format->name == "hf") RefuseGgufBeside(path);
    return *format;
  }
  if (IsFile(path)) RefuseTextFile(path);
  const std::string other = OtherProgramsModel(path);
  throw InputError(
      fmt::format("{}: no model found", path.string()),
      other.empty() ? "expected config.json and model.safetensors, or another program's model"
                    : other,
      "give a run, the directory of a checkpoint, such as RUN/last or RUN/best, or a model "
      "file of another program");
}

FoundModel FindModel(const fs::path& path, Loading loading, const fs::path& adapter) {
  if (path.empty()) {
    throw InputError("no model is named", "its name is empty",
                     "give a run, a model directory or a model file");
  }
  const fs::path at = FindModelDir(Located(path));
  RequireSound(at);
  const ModelFormat& format = FormatOf(at);
  FoundModel found = format.open(at, loading);
  found.path = at;
  found.format = format.name;
  if (found.tokenizer != nullptr) {
    found.tokenizer->set_known_tokens(found.model.config.vocab_size);
  }
  if (!adapter.empty()) found.model = WithAdapter(found.model, adapter);
  return found;
}

FoundModel FindBaseModel(const fs::path& adapter, Loading loading) {
  const BaseModel base = LoadBaseModel(adapter);
  const std::string help = fmt::format(
      "put the model back at {}; where it lies elsewhere, --model MODEL --adapter {} reads both",
      base.path, adapter.string());
  const auto refuse = [&](const std::string& what, const std::string& cause) {
    throw InputError(fmt::format("{}: {}", adapter.string(), what), cause, help);
  };
  FoundModel found;
  try {
    // Adapters of adapters could refer to each other in a circle.
    if (IsAdapterOfModel(FindModelDir(base.path))) refuse("its model is an adapter too", base.path);
    found = FindModel(base.path, loading);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    refuse("the model that the adapter is for cannot be opened",
           fmt::format("{}: {}", error.what(), error.cause()));
  }
  const std::string sha256 = WeightsSha256(found.model);
  if (sha256 != base.sha256) {
    refuse(fmt::format("{} is not the model that the adapter was trained for", base.path),
           fmt::format("its weights have SHA-256 {}, those of that model {}", sha256, base.sha256));
  }
  return found;
}

const ModelFormat& SavedFormat(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelFormat& format : ModelFormats()) {
    if (format.save == nullptr) continue;
    if (format.name == name) return format;
    names.push_back(format.name);
  }
  throw UsageError(fmt::format("models are not written as '{}'", name),
                   fmt::format("expected one of {}", fmt::join(names, ", ")));
}

const ModelFormat& SavedFormatOf(const fs::path& path) {
  constexpr std::string_view kOthers[] = {".safetensors", ".pt", ".pth", ".ckpt", ".onnx", ".npz"};
  const std::string ending = LowerAscii(path.extension().string());
  for (const ModelFormat& format : ModelFormats()) {
    if (format.save != nullptr && !format.ending.empty() && format.ending == ending) return format;
  }
  if (std::ranges::count(kOthers, ending) == 0) return SavedFormat("hf");
  throw UsageError(fmt::format("{}: no format is written as a file *{}", path.string(), ending),
                   "hf, which has model.safetensors, and nanogpt, which has ckpt.pt, are "
                   "directories; gguf is a file *.gguf, llmc a file *.bin",
                   "name a directory, without an ending");
}

std::vector<Dtype> SavedDtypes() {
  std::vector<Dtype> all;
  for (const ModelFormat& format : ModelFormats()) {
    for (const Dtype dtype : format.dtypes) {
      if (!std::ranges::count(all, dtype)) all.push_back(dtype);
    }
  }
  return all;
}

std::string NameOfSaved(Dtype dtype, bool mixed) {
  return LowerAscii(fmt::format("{}{}", DtypeName(dtype), mixed ? "_M" : ""));
}

std::string SavedDtypeOf(const fs::path& path) {
  const std::string stem = LowerAscii(path.stem().string());
  const auto ends_in = [&](const std::string& name) {
    return stem.size() > name.size() && stem.ends_with(name) &&
           std::string_view("-._").find(stem[stem.size() - name.size() - 1]) != std::string::npos;
  };
  std::vector<std::string> names = {NameOfSaved(Dtype::kQ4_K, /*mixed=*/true)};
  for (const Dtype dtype : SavedDtypes()) names.push_back(NameOfSaved(dtype));
  const auto found = std::ranges::find_if(names, ends_in);
  return found == names.end() ? "" : *found;
}

Converted ConvertModel(const Conversion& conversion,
                       const std::function<void(int, std::string_view)>& progress) {
  const ModelFormat& format = SavedFormat(conversion.format);
  RequireDtype(format, conversion.dtype, conversion.mixed);
  const fs::path to = TargetOf(conversion);
  const FoundModel source = FindModel(conversion.from, Loading::kMap, conversion.adapter);
  CheckTarget(conversion, source.path);
  const auto weights = MapWeights(source.model);
  const std::unique_ptr<Tokenizer> fewer = TokenizerToSave(format, source.tokenizer.get());
  const Tokenizer* const tokenizer = fewer == nullptr ? source.tokenizer.get() : fewer.get();
  Converted converted{.from = source.path,
                      .from_format = source.format,
                      .parameters = ModelSummary(weights->table()).parameters(),
                      .note = source.model.note};
  if (fewer != nullptr) {
    const int64_t left_out = source.tokenizer->vocab_size() - fewer->vocab_size();
    converted.note +=
        fmt::format("{}{} of the tokenizer {} left out, for which the model has no row",
                    converted.note.empty() ? "" : "; ",
                    left_out == 1 ? "1 token" : fmt::format("{} tokens", left_out),
                    left_out == 1 ? "is" : "are");
  }
  progress(0, "writing");
  const GuardedDirectory inside(conversion.from);  // a run's own files lead nowhere
  format.save(to, {.weights = *weights,
                   .tokenizer = tokenizer,
                   .dtype = conversion.dtype,
                   .mixed = conversion.mixed});
  try {
    progress(1, "comparing tensors");
    FoundModel result = format.open(to, Loading::kMap);
    result.format = format.name;
    converted.bytes = IsDirectory(to) ? BytesBelow(to) : fs::file_size(to);
    converted.tensors = CompareTensors(*weights, result, conversion);
    progress(2, "comparing tokenizers");
    CompareTokenizers(tokenizer, result.tokenizer.get());
    progress(3, "running a prompt");
    CompareLogits(*weights, result, conversion.dtype, converted);
    progress(kConversionSteps, "done");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(to, ignored);
    throw;
  }
  return converted;
}

}  // namespace folio
