#include <fmt/format.h>

#include <array>
#include <iterator>
#include <mutex>
#include <ranges>

#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/c/handles.h"
#include "folio/io/json.h"
#include "folio/run/run_config.h"

using folio::Guarded;
using folio::Json;
using folio::RequireArgument;

namespace {

constexpr std::array kStatusNames = {"ok",       "runtime",  "usage",     "input",
                                     "resource", "diverged", "cancelled", "internal"};
constexpr const char* kOptionKinds[] = {"open", "generate", "train"};

void LogNowhere(folio::LogLevel, std::string_view) {}

// A program's standard error is its own.
[[maybe_unused]] const bool silent = [] {
  folio::SetLogSink(LogNowhere);
  return true;
}();

std::optional<folio_options::Kind> KindNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kOptionKinds, name);
  if (found == std::end(kOptionKinds)) return std::nullopt;
  return static_cast<folio_options::Kind>(found - kOptionKinds);
}

const char* NameOf(folio_options::Kind kind) {
  return kOptionKinds[static_cast<size_t>(kind)];
}

// Every option of its kind that has one value.
std::vector<folio::Field> AllFields(folio_options& options, folio::RunConfig& config) {
  std::vector<folio::Field> fields = options.Fields();
  if (options.kind == folio_options::Kind::kTrain) {
    for (folio::Field& field : config.Fields()) fields.push_back(std::move(field));
  }
  return fields;
}

void SetOption(folio_options& options, const std::string& name, const std::string& value) {
  using Kind = folio_options::Kind;
  if (options.kind == Kind::kGenerate && name == "stop") {
    if (value.empty()) throw folio::UsageError("stop: an empty text ends nothing");
    options.generate.stop_strings.push_back(value);
    return;
  }
  folio::RunConfig config;  // only to look at a value
  const std::vector<folio::Field> fields = AllFields(options, config);
  const auto found = std::ranges::find(fields, name, &folio::Field::key);
  if (found == fields.end()) {
    std::vector<std::string> keys;
    for (const folio::Field& field : fields) keys.push_back(field.key);
    const std::string nearest = folio::Nearest(name, keys);
    throw folio::UsageError(
        fmt::format("no option '{}' of {}", name, NameOf(options.kind)), {},
        nearest.empty()
            ? fmt::format("folio_options_describe(\"{}\") tells of all", NameOf(options.kind))
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

}  // namespace

std::vector<folio::Field> folio_options::Fields() {
  using folio::Field;
  switch (kind) {
    case Kind::kOpen:
      return {
          Field{"dtype", &dtype, "what the weights are kept as"}.Choices(folio::MatrixDtypeNames()),
          Field{"tokenizer", &open.tokenizer, "for a model that came without its own"},
          Field{"adapter", &open.adapter, "the directory of one of LoRA to add to the weights"},
          Field{"chat_template", &open.chat_template,
                "name or file of one to take instead of the model's own"}};
    case Kind::kGenerate: {
      std::vector<Field> fields = {
          {"max_tokens", &generate.max_tokens, "of the text", 0, 1e12},
          Field{"when_full", &when_full,
                "the context: the text goes on without its oldest tokens, or ends"}
              .Choices({"slide", "stop"}),
          {"truncate", &generate.truncate, "of a prompt that is too long the end counts"}};
      for (Field& field : folio::PenaltyFields(generate.sampling.penalties)) {
        fields.push_back(std::move(field));
      }
      for (Field& field : folio::ChoiceFields(generate.sampling, seed)) {
        fields.push_back(std::move(field));
      }
      return fields;
    }
    case Kind::kTrain:
      break;
  }
  return {Field{"preset", &train.preset, "settings to begin with"},
          Field{"resume", &train.resume, "the run goes on from its last checkpoint"},
          Field{"overwrite", &train.overwrite, "the run takes the place of one that is there"}};
}

namespace folio {

folio_options OptionsArgument(const folio_options* options, folio_options::Kind kind) {
  folio_options copy = options == nullptr ? folio_options(kind) : *options;
  if (copy.kind != kind) {
    throw UsageError("options: of another kind", fmt::format("expected those of \"{}\", found "
                                                             "those of \"{}\"",
                                                             NameOf(kind), NameOf(copy.kind)));
  }
  return copy;
}

}  // namespace folio

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
  folio::SetLogSink([log, user](folio::LogLevel of, std::string_view text) {
    log(user, static_cast<int32_t>(of), text.data(), text.size());
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
  try {
    return new folio_buffer;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
const void* folio_buffer_data(const folio_buffer* buffer) {
  return buffer == nullptr ? "" : buffer->bytes.data();
}
size_t folio_buffer_size(const folio_buffer* buffer) {
  return buffer == nullptr ? 0 : buffer->bytes.size() - 1;
}
void folio_buffer_free(folio_buffer* buffer) {
  delete buffer;
}

folio_options* folio_options_new(const char* of) {
  const auto kind = of == nullptr ? std::nullopt : KindNamed(of);
  try {
    return kind ? new folio_options(*kind) : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

folio_status folio_options_set(folio_options* options, const char* name, const char* value,
                               folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(options, "options");
    RequireArgument(name, "name");
    RequireArgument(value, "value");
    SetOption(*options, name, value);
  });
}

folio_status folio_options_describe(const char* of, folio_buffer* json, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(of, "of");
    RequireArgument(json, "json");
    const auto kind = KindNamed(of);
    if (!kind) {
      throw folio::UsageError(fmt::format("no options of '{}'", of),
                              "there are those of open, generate and train");
    }
    folio_options options(*kind);
    folio::RunConfig config;
    Json all = Json::array();
    for (const folio::Field& field : AllFields(options, config)) {
      all.push_back(DescriptionOf(field));
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
