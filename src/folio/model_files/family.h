#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/stored_model.h"

namespace folio {

// The formats in which programs save models (formats/model_formats.h).
enum class FileFormat : uint8_t { kHuggingFace, kGguf, kNanoGpt, kLlmc, kOpenAi, kNanochat };
inline constexpr size_t kFileFormats = 6;

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
// "bias" after a dot, in "b" after a slash. Where there are more names than one, such files have q
// | k | v or gate | up as tensors of their own.
struct FileTensor {
  std::array<std::string_view, 3> names = {};
  Transform transform = Transform::kNone;
  RowOrder order = RowOrder::kAsHere;  // of heads: q and k alone where v is apart
  float offset = 0;                    // what its numbers have more than the model's

  std::string_view name() const { return names.front(); }
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
  bool null_for_zero = false;  // 0, which means none, is written as null
};

// A field, and a value as FieldText has it.
struct FieldValue {
  std::string_view field, value;
};

// A key of config.json that says a field in another way.
struct DerivedKey {
  std::string_view key, field;
  // Adds to `said` the fields that `value` means, by their names in GptConfig; `json` is the object
  // that has the key. Fields in `said` count more than the keys of fields. Throws a kInput Error
  // that begins with `where` for what folio does not have. Null: the key says nothing by itself.
  void (*read)(const Json& value, const Json& json, Json& said, const std::string& where);
  // The value to write; none where files of such a model do without the key. Null: it is only read.
  std::optional<Json> (*write)(const GptConfig& config);
};

// A key of config.json of which folio supports one value only, in JSON, or null. Other values need
// `feature`.
struct RefusedKey {
  std::string_view key, only, feature;
};

// A key of GGUF, behind "ARCHITECTURE.", and its field: a size or a number, or the kinds of layers.
struct GgufKey {
  enum class Use : uint8_t {
    kRequired,
    kOptional,
    kOnlyWritten,
    kOnlyRead,     // other programs pass over it, and so would compute something else
    kInverse,      // optional, and 1 / the field
    kTrue,         // written as true, and of no field
    kZeroForNone,  // optional, and written as 0 where the field is null
  };
  std::string_view key, field;
  Use use = Use::kRequired;
};

// Tensors of GGUF that hold divisors of the rotary frequencies.
enum class RopeTensors : uint8_t {
  kNone,
  kDivisors,      // of the scaling of Llama 3.1
  kShortAndLong,  // of longrope
};

// Models of more than text whose "text_config" is one of the family. folio supports that part only,
// as transformers' class of the family and llama.cpp's converter do.
struct Enclosing {
  std::string_view model_type, architecture;  // empty where there are none
  std::vector<std::string_view> prefixes;     // what names have for the family's optional_prefix
  std::vector<std::string_view> not_text;     // how names of other parts' tensors begin
};

// Files of these formats can hold only models for which `holds` returns true; for others the value
// of `field` is given as the reason.
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
  std::vector<std::string_view> architectures;  // the first is written, each is read
  std::vector<ConfigKey> keys;
  std::vector<ConfigKey> repeated_keys;  // written beside `keys`; read only to be compared
  std::vector<FieldValue> fixed;         // what no key says, since all models of the family have it
  std::vector<std::string_view> own;     // fields without a row above that every file has
  // An object of keys, and what transformers' class takes for them where a file lacks them, unless
  // that is what GptConfig begins with. A token beyond the vocabulary is none.
  std::string_view absent;
  std::vector<RefusedKey> refused;
  // Keys of the class, and of published files, that change no number, beside those of every family.
  std::vector<std::string_view> passed_over;
  std::vector<DerivedKey> derived;     // in the order of reading
  std::string_view activation_prefix;  // before activation_function, for other programs to stop at

  // Tensors
  std::vector<TensorRow> tensors;
  std::string_view optional_prefix;        // which names in a file may lack, all of them
  std::vector<std::string_view> not_read;  // ends of names of what is no parameter
  bool all_biases;  // files have all biases: zeros for those that a model does without

  Enclosing enclosing;

  // GGUF
  std::string_view gguf_architecture;
  std::vector<GgufKey> gguf_keys;
  std::vector<FieldValue> gguf_unsaid;            // what files mean that have no key of the field
  std::vector<std::string_view> gguf_by_tensors;  // fields that are true where such tensors are
  void (*gguf_by_sizes)(GptConfig& config);  // sets what follows from sizes; null: nothing does
  RopeTensors gguf_rope;                     // that files may have

  std::vector<Limit> limits;
};

}  // namespace folio
