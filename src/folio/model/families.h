#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "folio/model/config.h"

namespace folio {

// The formats in which programs save models (formats/model_formats.h).
enum class FileFormat : uint8_t { kHuggingFace, kGguf, kNanoGpt, kLlmc, kOpenAi };
inline constexpr size_t kFileFormats = 5;

// A set of formats: one bit for each.
template <class... Format>
constexpr unsigned Formats(Format... formats) {
  return (0u | ... | (1u << static_cast<unsigned>(formats)));
}

// The way in which the numbers of a weight lie in a file.
enum class Transform : uint8_t {
  kNone,
  kTranspose,  // (in,out) lies as (out,in)
  kUnitAxis,   // (in,out) lies as (1,in,out)
};

// A weight in the files of one format. Its name has {} for the number of the block, and is empty
// where such files have none. A bias beside it lies as it is, and its name ends otherwise: in
// "bias" after a dot, in "b" after a slash.
struct FileTensor {
  std::string_view name = {};
  Transform transform = Transform::kNone;
};

// A module of the parameter table (ParamRow::module), and its weight in files by FileFormat.
struct TensorRow {
  std::string_view module;
  std::array<FileTensor, kFileFormats> files;
};

// The keys of config.json that mean a field of GptConfig: the first is written, each is read.
// Fields without a row have their own names as keys.
struct ConfigKey {
  std::string_view field;
  std::array<std::string_view, 2> keys;
};

// A field, and a value as FieldText has it.
struct FieldValue {
  std::string_view field, value;
};

// A key of config.json of which folio knows but one value, in JSON, or null. The others ask for
// `feature`.
struct RefusedKey {
  std::string_view key, only, feature;
};

// A key of GGUF, behind "ARCHITECTURE.", and its field: a size or a number.
struct GgufKey {
  enum class Reading : uint8_t { kRequired, kOptional, kNever };
  std::string_view key, field;
  Reading reading = Reading::kRequired;
};

// Models of the family hold to `holds` in these formats; another value of `field` is the reason
// why one cannot be written there.
struct Limit {
  std::string_view field;
  unsigned formats;
  bool (*holds)(const GptConfig&);
};

// A kind of models that other programs know, and all that files say of it. Readers and writers of
// every format loop over these tables, so that a row is all that a family needs.
struct Family {
  unsigned formats;  // that have such models

  // config.json
  std::string_view model_type;
  std::span<const std::string_view> architectures;  // the first is written, each is read
  std::span<const ConfigKey> keys;
  std::span<const ConfigKey> repeated_keys;  // written beside `keys`; read only to be compared
  std::span<const FieldValue> absent;  // fields whose absence means another value than GptConfig's
  std::span<const RefusedKey> refused;
  std::optional<int64_t> absent_end;   // the token that transformers takes for a missing one
  std::string_view activation_prefix;  // before activation_function, for other programs to stop at

  // Tensors
  std::span<const TensorRow> tensors;
  std::string_view optional_prefix;            // which names in a file may lack, all of them
  std::span<const std::string_view> not_read;  // ends of names of what is no parameter
  bool all_biases;  // files have all biases: zeros for those that a model does without

  // GGUF
  std::string_view gguf_architecture;
  std::span<const GgufKey> gguf_keys;

  std::span<const Limit> limits;
};

// All of them. The first is GPT-2, for which files are taken that say nothing else; the last is
// "folio", which expresses every model, and which no other program takes for its own.
std::span<const Family> Families();
const Family& Gpt2Family();

// The reason why the family cannot express a model in files of a format, "norm_position = post,
// causal = false"; empty where it can.
std::string WhyNot(const Family& family, FileFormat format, const GptConfig& config);

// The first family that can express a model in files of a format; GPT-2 where none can.
const Family& FamilyFor(const GptConfig& config, FileFormat format);

// Throws a kInput Error that begins with `what` and says why, unless files of the format can hold
// the model.
void RequireExpressed(const GptConfig& config, FileFormat format, const std::string& what);

// The same model with every bias.
GptConfig WithBiases(GptConfig config);

// The field of that key. REQUIRES: there is one.
const Field& FieldOf(std::span<const Field> fields, std::string_view key);

}  // namespace folio
