#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <ranges>

#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/c/handles.h"
#include "folio/io/json.h"
#include "folio/run/run_config.h"

using folio::Guarded;
using folio::Json;
using folio::PathArgument;
using folio::RequireArgument;
using folio::RequireArguments;
using folio::RequireArray;

namespace {

constexpr std::array kStatusNames = {"ok",       "runtime",  "usage",     "input",
                                     "resource", "diverged", "cancelled", "internal"};
constexpr const char* kOptionKinds[] = {"open", "generate", "train", "prepare", "tokenizer"};

void LogNowhere(folio::LogLevel, std::string_view) {}

// The library does not write to the program's standard error.
[[maybe_unused]] const bool silent = [] {
  folio::SetLogSink(LogNowhere);
  return true;
}();

std::optional<folio_options::Kind> KindNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kOptionKinds, name);
  if (found == std::end(kOptionKinds)) return std::nullopt;
  return static_cast<folio_options::Kind>(found - kOptionKinds);
}

const char* KindName(folio_options::Kind kind) {
  return kOptionKinds[static_cast<size_t>(kind)];
}

// All single-valued options of its kind.
std::vector<folio::Field> AllFields(folio_options& options, folio::RunConfig& config) {
  std::vector<folio::Field> fields = options.Fields();
  if (options.kind == folio_options::Kind::kTrain) {
    for (folio::Field& field : config.Fields()) fields.push_back(std::move(field));
  }
  return fields;
}

using Kind = folio_options::Kind;

// An option that may be set repeatedly.
struct Repeated {
  Kind kind;
  std::string_view name, help;
};
constexpr Repeated kRepeated[] = {
    {Kind::kGenerate, "stop", "string at which the text stops"},
    {Kind::kTokenizer, "special_token",
     "instead of <|endoftext|>; special tokens have ids in the order given"}};

// Sets an option of kRepeated; returns false for any other.
bool SetRepeated(folio_options& options, std::string_view name, const std::string& value) {
  if (options.kind == Kind::kGenerate && name == "stop") {
    if (value.empty()) throw folio::UsageError("stop: the string is empty");
    options.generate.stop_strings.push_back(value);
    return true;
  }
  if (options.kind == Kind::kTokenizer && name == "special_token") {
    std::vector<std::string>& specials = options.tokenizer.trainer.specials;
    if (!std::exchange(options.own_special_tokens, true)) specials.clear();
    specials.push_back(value);
    return true;
  }
  return false;
}

void SetField(folio_options& options, const std::string& name, const std::string& value) {
  folio::RunConfig config;  // only to validate a value
  const std::vector<folio::Field> fields = AllFields(options, config);
  const auto found = std::ranges::find(fields, name, &folio::Field::key);
  if (found == fields.end()) {
    std::vector<std::string> keys;
    for (const folio::Field& field : fields) keys.push_back(field.key);
    const std::string nearest = folio::Nearest(name, keys);
    throw folio::UsageError(
        fmt::format("there is no option '{}' for {}", name, KindName(options.kind)), {},
        nearest.empty()
            ? fmt::format("folio_options_describe(\"{}\") lists all", KindName(options.kind))
            : fmt::format("did you mean {}?", nearest));
  }
  folio::SetField(*found, value, name);
  const bool setting = static_cast<size_t>(found - fields.begin()) >= options.Fields().size();
  if (setting) options.train.settings.emplace_back(name, value);
}

Json DescriptionOf(const folio::Field& field) {
  return {{"name", field.key},
          {"type", folio::FieldType(field)},
          {"value", folio::FieldText(field)},
          {"help", field.help}};
}

// Returns true if all of these addresses are mapped, as far as the system can check quickly.
bool IsMapped([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  constexpr size_t kSmall = size_t{1} << 20;  // frequent small arguments are not checked
  if (bytes < kSmall) return true;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(begin) / page * page;
  const auto to = reinterpret_cast<uintptr_t>(begin) + bytes;
  // MS_ASYNC does not change memory, but fails if it is not mapped.
  return to > from &&
         (msync(reinterpret_cast<void*>(from), to - from, MS_ASYNC) == 0 || errno != ENOMEM);
#else
  return true;
#endif
}

}  // namespace

std::vector<folio::Field> folio_options::Fields() {
  using folio::Field;
  switch (kind) {
    case Kind::kOpen:
      return {
          Field{"dtype", &dtype, "number format of the weights"}.Choices(folio::MatrixDtypeNames()),
          Field{"tokenizer", &open.tokenizer, "tokenizer for a model without one"},
          Field{"adapter", &open.adapter, "directory of a LoRA adapter to merge into the weights"},
          Field{"chat_template", &open.chat_template,
                "name or file of a chat template, instead of the model's own"},
          Field{"chat_template_kwargs", &template_variables,
                "variables of the chat template, as JSON or NAME=VALUE,..."}};
    case Kind::kGenerate: {
      std::vector<Field> fields = {
          {"max_tokens", &generate.max_tokens, "maximum number of tokens to add", 0, 1e12},
          Field{"when_full", &when_full,
                "when the context is full: drop the oldest tokens, or stop"}
              .Choices({"slide", "stop"}),
          {"truncate", &generate.truncate,
           "use the end of a prompt that is longer than the context"},
          Field{
              "defaults", &defaults,
              "defaults of options that are not set: plain, or those of `folio chat` (suggested by "
              "the model's files, or measured for answers)"}
              .Choices({"plain", "chat"})};
      for (Field& field : folio::SamplingFields(generate.sampling, seed)) {
        fields.push_back(std::move(field));
      }
      return fields;
    }
    case Kind::kPrepare:
      return {
          {"tokenizer", &prepare.tokenizer,
           "tokenizer: char, bytes, a published encoding, or a path"},
          Field{"val_fraction", &prepare.val_fraction, "fraction of the text that is held out", 0,
                1}
              .MaxExcluded(),
          Field{"val_split", &prepare.val_split,
                "which part is held out: blocks spread over the text, or its end"}
              .Choices({"spread", "tail"}),
          Field{"special", &prepare.special, "meaning of special tokens in the text"}.Choices(
              {"allow", "raise", "ordinary"}),
          Field{"format", &prepare.format, "format of the token files"}.Choices({"folio", "llmc"}),
          {"shard_tokens", &prepare.shard_tokens,
           "split the data into files of this many tokens; 0: one file", 0, 1e15},
          {"field", &prepare.field, "member of JSON lines that contains the text"},
          {"chat_template", &prepare.chat_template,
           "chat template for conversations, instead of the tokenizer's own"},
          {"raw", &prepare.raw, "read all files as bytes"},
          {"overwrite", &prepare.overwrite, "replace an existing data set"}};
    case Kind::kTokenizer:
      return {
          {"vocab_size", &tokenizer.trainer.vocab_size,
           "number of tokens, including bytes and special tokens", 256, 1 << 21},
          Field{"pattern", &pattern, "pattern that splits text into pieces before merging"}.Choices(
              {"gpt2", "cl100k", "o200k"}),
          {"specials_first", &tokenizer.trainer.specials_first,
           "give special tokens the first ids"},
          {"min_count", &tokenizer.trainer.min_count, "minimum count of a pair to be merged", 1},
          {"field", &tokenizer.texts.field, "member of JSON lines that contains the text"},
          {"overwrite", &tokenizer.overwrite, "replace an existing tokenizer"}};
    case Kind::kTrain:
      break;
  }
  return {Field{"preset", &train.preset, "a named model with its training settings"},
          Field{"resume", &train.resume, "continue from the last checkpoint of the run"},
          Field{"overwrite", &train.overwrite, "replace an existing run"}};
}

void folio_options::Set(const std::string& name, const std::string& value) {
  if (!SetRepeated(*this, name, value)) SetField(*this, name, value);
  if (kind == Kind::kGenerate) given.emplace_back(name, value);
}

namespace folio {

folio_options OptionsArgument(const folio_options* options, folio_options::Kind kind) {
  folio_options copy = options == nullptr ? folio_options(kind) : *options;
  if (copy.kind != kind) {
    throw UsageError("options: wrong kind",
                     fmt::format("expected options of \"{}\", found options of \"{}\"",
                                 KindName(kind), KindName(copy.kind)));
  }
  return copy;
}

void RequireSize(size_t size, size_t least, std::string_view argument, std::string_view type) {
  if (size >= least) return;
  throw UsageError(fmt::format("{}: size is {}", argument, size),
                   fmt::format("expected at least {}", least),
                   fmt::format("set size to sizeof({})", type));
}

folio_watch WatchArgument(const folio_watch* watch) {
  folio_watch all{};
  if (watch == nullptr) return all;
  constexpr size_t kLeast = offsetof(folio_watch, evaluation) + sizeof(all.evaluation);
  RequireSize(watch->size, kLeast, "watch", "folio_watch");
  std::memcpy(&all, watch, std::min(watch->size, sizeof(all)));
  return all;
}

void Tell(const folio_watch& watch, int64_t done, int64_t total) {
  if (IsRequested(watch.cancel)) throw CallStopped{};
  if (watch.progress != nullptr && watch.progress(watch.user, done, total) != 0)
    throw CallStopped{};
}

void RequireArray(const void* argument, size_t count, size_t size, std::string_view name) {
  if (count == 0) return;
  RequireArgument(argument, name);
  if (count > PTRDIFF_MAX / size || !IsMapped(argument, count * size)) {
    throw UsageError(
        fmt::format("{}: {} of them", name, count),
        fmt::format("an array of so many ({} bytes each) is not in the memory of the process",
                    size));
  }
}

const char* PathArgument(const char* path, std::string_view name) {
  RequireArgument(path, name);
  const std::string_view whole(path);
  if (whole.empty()) {
    throw UsageError(fmt::format("{}: ''", name), "expected a path or a name");
  }
  size_t longest = 0;
  for (size_t at = 0; at < whole.size();) {
    const size_t end = std::min(whole.find('/', at), whole.size());
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  if (longest > NAME_MAX || whole.size() >= PATH_MAX) {
    throw UsageError(
        fmt::format("{}: {}... is too long", name, whole.substr(0, 40)),
        fmt::format("it has {} bytes, up to {} between slashes", whole.size(), longest),
        fmt::format("the system allows {}, and {} between slashes", PATH_MAX - 1, NAME_MAX));
  }
  return path;
}

std::vector<std::string> PathsArgument(const char* const* paths, size_t count,
                                       std::string_view name) {
  RequireArray(paths, count, sizeof(*paths), name);
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    all.emplace_back(PathArgument(paths[i], fmt::format("{}[{}]", name, i)));
  }
  return all;
}

std::vector<std::string> TextsArgument(const char* const* texts, size_t count) {
  if (count == 0) throw UsageError("texts: none", "expected at least one");
  return PathsArgument(texts, count, "texts");
}

void SetTensor(folio_tensor* out, const Tensor& tensor) {
  RequireArgument(out, "out");
  folio_tensor all{};
  RequireSize(out->size, sizeof(all), "out", "folio_tensor");
  all.size = sizeof(all);
  all.data = tensor.host_bytes();
  all.dtype = DtypeName(tensor.dtype()).data();
  all.bytes = tensor.bytes();
  all.rank = tensor.shape().rank();
  for (int i = 0; i < all.rank; ++i) all.shape[i] = tensor.dim(i);
  std::memcpy(out, &all, sizeof(all));
}

}  // namespace folio

namespace {

// Returns a new object, or null where it cannot be made.
template <class T, class... Arguments>
T* NewOrNull(const Arguments&... arguments) {
  try {
    return new T(arguments...);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

folio_files* folio_files_new() {
  return NewOrNull<folio_files>();
}

folio_status folio_files_add(folio_files* files, const char* name, const void* bytes, size_t size,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(files, "files");
    PathArgument(name, "name");
    RequireArray(bytes, size, 1, "bytes");
    files->impl.Add(name, {static_cast<const std::byte*>(bytes), size});
  });
}

folio_status folio_files_read(folio_files* files, const char* name, uint64_t size,
                              int (*read)(void* user, uint64_t offset, void* bytes, size_t count),
                              void* user, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(files, "files");
    PathArgument(name, "name");
    if (read == nullptr) throw folio::UsageError("read: NULL", "expected a function");
    files->impl.Add(name, size, [&](uint64_t offset, std::span<std::byte> to) {
      if (read(user, offset, to.data(), to.size()) == 0) return;
      throw folio::InputError(fmt::format("{}: cannot read", name),
                              fmt::format("its reader failed at {} bytes from offset {} of {}",
                                          to.size(), offset, size));
    });
  });
}

const char* folio_files_path(const folio_files* files) {
  return files == nullptr ? "" : files->impl.path().c_str();
}
void folio_files_free(folio_files* files) {
  delete files;
}

const char* folio_status_name(folio_status status) {
  const auto i = static_cast<size_t>(status);
  return status >= 0 && i < kStatusNames.size() ? kStatusNames[i] : "unknown";
}

const char* folio_error_message(const folio_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
const char* folio_error_cause(const folio_error* error) {
  return error == nullptr ? "" : error->cause.c_str();
}
const char* folio_error_help(const folio_error* error) {
  return error == nullptr ? "" : error->help.c_str();
}
void folio_error_free(folio_error* error) {
  delete error;
}

uint32_t folio_version() {
  return FOLIO_VERSION_MAJOR << 16 | FOLIO_VERSION_MINOR << 8 | FOLIO_VERSION_PATCH;
}

void folio_set_log(int32_t level,
                   void (*log)(void* user, int32_t level, const char* text, size_t length),
                   void* user) {
  folio::SetLogLevel(static_cast<folio::LogLevel>(std::clamp<int32_t>(level, 0, 3)));
  if (log == nullptr) {
    folio::SetLogSink(LogNowhere);
    return;
  }
  folio::SetLogSink([log, user](folio::LogLevel severity, std::string_view text) {
    log(user, static_cast<int32_t>(severity), text.data(), text.size());
  });
}

void folio_set_fatal(void (*fatal)(void* user, const char* text), void* user) {
  if (fatal == nullptr) return folio::SetFatalHook({});
  folio::SetFatalHook([fatal, user](const std::string& text) { fatal(user, text.c_str()); });
}

folio_status folio_set_threads(int32_t threads, folio_error** error) {
  return Guarded(error, [&] { folio::SetThreads(threads); });
}

folio_buffer* folio_buffer_new() {
  return NewOrNull<folio_buffer>();
}
const void* folio_buffer_data(const folio_buffer* buffer) {
  if (buffer == nullptr) return "";
  if (!buffer->ids.empty()) return buffer->ids.data();
  return buffer->bytes.data();
}
size_t folio_buffer_size(const folio_buffer* buffer) {
  if (buffer == nullptr) return 0;
  if (!buffer->ids.empty()) return (buffer->ids.size() - 1) * sizeof(int32_t);
  return buffer->bytes.size() - 1;
}
void folio_buffer_free(folio_buffer* buffer) {
  delete buffer;
}

folio_options* folio_options_new(const char* kind) {
  const auto known = kind == nullptr ? std::nullopt : KindNamed(kind);
  return known ? NewOrNull<folio_options>(*known) : nullptr;
}

folio_status folio_options_set(folio_options* options, const char* name, const char* value,
                               folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{options, "options"}, {name, "name"}, {value, "value"}});
    options->Set(name, value);
  });
}

folio_status folio_options_describe(const char* kind, folio_buffer* json, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{kind, "kind"}, {json, "json"}});
    const auto known = KindNamed(kind);
    if (!known) {
      throw folio::UsageError(
          fmt::format("there are no options for '{}'", kind),
          fmt::format("there are options for {}", fmt::join(kOptionKinds, ", ")));
    }
    folio_options options(*known);
    folio::RunConfig config;
    Json all = Json::array();
    for (const folio::Field& field : AllFields(options, config)) {
      all.push_back(DescriptionOf(field));
    }
    for (const Repeated& repeated : kRepeated) {
      if (repeated.kind != *known) continue;
      all.push_back({{"name", std::string(repeated.name)},
                     {"type", "texts"},
                     {"value", ""},
                     {"help", std::string(repeated.help)}});
    }
    json->Set(all.dump());
  });
}

void folio_options_free(folio_options* options) {
  delete options;
}

folio_cancel* folio_cancel_new() {
  return new (std::nothrow) folio_cancel;
}
void folio_cancel_request(folio_cancel* cancel) {
  if (cancel != nullptr) cancel->requested = true;
}
void folio_cancel_reset(folio_cancel* cancel) {
  if (cancel != nullptr) cancel->requested = false;
}
void folio_cancel_free(folio_cancel* cancel) {
  delete cancel;
}
