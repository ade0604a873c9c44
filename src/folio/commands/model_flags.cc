#include "folio/commands/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "folio/backend/backend.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/published_models.h"
#include "folio/io/file.h"
#include "folio/model_files/adapter_files.h"
#include "folio/ranks/join.h"
#include "folio/text/chat_json.h"
#include "folio/text/chat_template.h"
#include "folio/text/published_encodings.h"
#include "folio/train/config.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

std::vector<Field> WithFlagsOf(std::vector<Field> fields, const std::vector<std::string>& flags) {
  for (Field& field : fields) {
    if (std::ranges::find(flags, field.flag) == flags.end()) field.flag.clear();
  }
  return fields;
}

// Returns a function that throws Stopped if a request to stop is older than the time in which a
// command usually ends by itself, after a token or a batch. May be called from several threads.
std::function<void()> StopCheck(OnStop on_stop) {
  // The other ranks follow the first.
  if (on_stop == OnStop::kWaits || RankByEnvironment() != 0) return [] {};
  return [on_stop, asked = std::make_shared<std::atomic<double>>(0)] {
    constexpr double kOfItself = 0.5;  // seconds
    const int signal = StopRequested();
    if (signal == 0 || (signal == SIGINT && on_stop == OnStop::kEndsButInterrupt)) return;
    double first = 0;
    const double now = SteadySeconds();
    if (asked->compare_exchange_strong(first, now)) return;
    if (now - first > kOfItself) throw Stopped{signal};
  };
}

}  // namespace

void SimdFlag::Add(Flags& flags) {
  flags.Value(
      Field{"simd", &name_, "instruction set to use instead of the best available available"}
          .Suggestions(SimdTargets()),
      {.placeholder = "NAME"});
}

void SimdFlag::Use() const {
  if (!name_.empty()) ForceSimdTarget(name_);
}

void ComputeFlags::Add(Flags& flags) {
  flags.Value(Field{"threads", &threads_, "threads to use; 0: one for each core", 0, kMaxThreads});
  simd_.Add(flags);
}

void ComputeFlags::Use() const {
  UseThreads(threads_);
  simd_.Use();
}

void UseThreads(int64_t threads) {
  if (threads > 0) SetThreads(static_cast<int>(threads));
}

void AddModelFlag(Flags& flags, std::string* model, bool required) {
  flags.Value(
      Field{"model", model, "a run, a model directory or a model file; may stand first without it"}
          .WithFlag("-m,--model"),
      {.placeholder = "DIR",
       .required = required,
       .position = "MODEL",
       .fits = [](const std::string& word) {
         return FindPublishedModel(word) != nullptr || Exists(word);
       }});
}

void AddAdapterFlag(Flags& flags, std::string* adapter) {
  flags.Value(Field{"adapter", adapter, "a LoRA adapter for the model, in PEFT's format"},
              {.placeholder = "DIR"});
}

void RequireModelFor(const std::string& adapter, const std::string& model) {
  if (adapter.empty() || !model.empty()) return;
  throw UsageError("--adapter needs --model", "an adapter is added to the weights of a model",
                   "add --model with the model of the adapter");
}

void AddBackendFlag(Flags& flags, std::string* backend) {
  flags.Value(Field{"backend", backend, "backend"}.Choices(BackendNames(/*finds_faults=*/false)));
}

void AddPresetFlag(Flags& flags, std::string* preset) {
  std::vector<std::string> names;
  for (const Preset& known : Presets()) names.push_back(known.name);
  flags.Value(
      Field{"preset", preset, "a named model with its training settings"}.Choices(std::move(names)),
      {.placeholder = "NAME"});
}

void AddTokenizerFlag(Flags& flags, std::string* spec, bool required) {
  std::vector<std::string> known = PublishedEncodingNames();
  known.insert(known.begin(), "bytes");
  flags.Value(Field{"tokenizer", spec,
                    "a published encoding (gpt2, cl100k_base), bytes, or the path of a tokenizer's "
                    "directory or file, or of a GGUF model"}
                  .Suggestions(std::move(known)),
              {.placeholder = "NAME|DIR|FILE", .required = required});
}

void AddSpecialFlag(Flags& flags, std::string* name) {
  flags.Value(
      Field{"special", name, "special tokens in the text: an error, their token, or ordinary text"}
          .Choices({"raise", "allow", "ordinary"}));
}

void ModelFlags::AddModel(Flags& flags, bool required) {
  AddModelFlag(flags, &model, required);
  AddAdapterFlag(flags, &adapter);
  AddLoad(flags);
}

void ModelFlags::AddLoad(Flags& flags) {
  flags.Value(Field{"load", &load,
                    "map: read weights when they are used; read: read them all first, which is "
                    "faster on network disks"}
                  .Choices({"map", "read"}));
}

void ModelFlags::AddDecoding(Flags& flags) {
  flags.Value(Field{"tokenizer", &tokenizer,
                    "tokenizer for a model without one: a published encoding, or the path of a "
                    "directory or file"},
              {.placeholder = "NAME|DIR|FILE"});
  flags.Value(
      Field{"chat-template", &chat_template,
            fmt::format(
                "chat template, instead of the model's own: {}, or a file with a template in Jinja",
                Join(BuiltinChatTemplates(), ", "))},
      {.placeholder = "NAME|FILE"});
  flags.Value(Field{"chat-template-kwargs", &template_variables,
                    "variables of the chat template, as JSON or NAME=VALUE,...: "
                    "enable_thinking=false"},
              {.placeholder = "VARIABLES"});
  AddDtype(flags);
}

void ModelFlags::AddDtype(Flags& flags) {
  dtype = "auto";
  flags.Value(
      Field{"dtype", &dtype, "number format of the weights; auto: as stored in the file"}.Choices(
          MatrixDtypeNames()));
}

void ModelFlags::AddCache(Flags& flags) {
  flags.Switch("--bf16-cache", &bf16_cache, "keep keys and values in bfloat16, in half the memory");
}

void ModelFlags::AddCompute(Flags& flags) {
  compute.Add(flags);
  AddBackendFlag(flags, &backend);
}

OpenedModel ModelFlags::Open(Console& console) const {
  compute.Use();
  return Open(console, model, adapter);
}

OpenedModel ModelFlags::Open(Console& console, const std::string& path,
                             const std::string& its_adapter) const {
  const std::function<void()> check = StopCheck(on_stop);
  OpenedModel opened =
      OpenModel(path, {.backend = backend,
                       .tokenizer = tokenizer,
                       .adapter = its_adapter,
                       .loading = load == "read" ? Loading::kRead : Loading::kMap,
                       .chat_template = chat_template,
                       .template_variables = ParseTemplateVariables(template_variables),
                       .matrices = MatrixDtypeNamed(dtype),
                       .progress = [check](int64_t, int64_t) { check(); },
                       .before_operation = check});
  if (!opened.note.empty()) console.Note(opened.note);
  return opened;
}

std::optional<Dtype> ModelFlags::cache() const {
  return bf16_cache ? std::optional(Dtype::kBF16) : std::nullopt;
}

ModelSettings::ModelSettings(const std::vector<std::string>& flags)
    : settings_(WithFlagsOf(config_.Fields(), flags)) {}

void ModelSettings::AddFlags(Flags& flags) {
  AddPresetFlag(flags, &preset_);
  AddModelFlag(flags, &model_, /*required=*/false);
  flags.Settings(&settings_, {"train", "lora"});
}

void ModelSettings::Resolve(const ConfigSources& sources) {
  if (!preset_.empty() && !model_.empty()) {
    throw UsageError("--preset and --model cannot be used together", "both give the model",
                     "remove one of them");
  }
  if (!preset_.empty()) settings_.UsePreset(preset_, FindPreset(preset_).settings);
  settings_.ReadSources(sources);
  settings_.Resolve();
  if (model_.empty()) {
    config_.model.Validate("settings");
    ResolveTargets(config_.train.lora, config_.model, "settings");
    return;
  }
  for (const Field& field : settings_.fields()) {
    if (field.key.starts_with("model.") && settings_.layer(field.key) == Layer::kSet) {
      throw UsageError(fmt::format("--set {} cannot be used with --model", field.key),
                       fmt::format("'{}' defines the model", model_), "remove one of them");
    }
  }
}

void ModelSettings::Read(const ConfigSources& sources) {
  Resolve(sources);
  if (model_.empty()) return;
  config_.model = FindModel(model_).model.config;
  ResolveTargets(config_.train.lora, config_.model, "settings");
}

std::string ModelSettings::name() const {
  if (!model_.empty()) return model_;
  return preset_.empty() ? "settings" : preset_;
}

int64_t ModelSettings::Context() const {
  return ContextOf(config_.model, config_.train);
}

std::vector<int64_t> ParseNumbers(const std::string& flag, const std::string& list, int64_t least,
                                  int64_t most) {
  std::vector<int64_t> numbers;
  for (const std::string& text : Split(list, ',')) {
    const Field field{flag.substr(2), &numbers.emplace_back(),
                      fmt::format("for example {} 1,2,4", flag), static_cast<double>(least),
                      static_cast<double>(most)};
    SetField(field, text, flag);
  }
  return numbers;
}

void RequireFileName(const std::string& flag, const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return;
  if (path != "-" && !std::filesystem::is_directory(path, ignored)) return RequireParentOf(path);
  throw UsageError(
      fmt::format("{} {}: {}", flag, path,
                  path == "-" ? "it cannot be written to standard output" : "is a directory"),
      {}, "give a file");
}

std::string ReadAll(ByteInput input) {
  constexpr size_t kLongestText = size_t{1} << 26;
  std::string text;
  while (input.Read(text, size_t{1} << 20) > 0) {
    if (text.size() > kLongestText) {
      throw InputError(fmt::format("{}: longer than {} bytes", input.name(), kLongestText), {},
                       "use the part that the model needs");
    }
  }
  return text;
}

std::vector<int32_t> ParseIds(const std::string& list, const std::string& where, int64_t V) {
  std::vector<int32_t> ids;
  ByteInput input = ByteInput::FromText(list, where);
  ReadIds(input, IdFormat::kText,
          [&](std::span<const int32_t> some) { ids.insert(ids.end(), some.begin(), some.end()); });
  for (const int32_t id : ids) {
    if (id >= V) {
      throw InputError(fmt::format("{}: the model has no token {}", where, id),
                       fmt::format("the token ids are 0 to {}", V - 1));
    }
  }
  return ids;
}

}  // namespace folio
