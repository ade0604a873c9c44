#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/model/checkpoint.h"
#include "folio/model/config.h"

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

// A key of config.json of which folio knows but one value, in JSON, or null. The others ask for
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

// Models of more than text whose "text_config" is one of the family: of these folio has that part
// alone, as transformers' class of the family and llama.cpp's converter do.
struct Enclosing {
  std::string_view model_type, architecture;   // empty where there are none
  std::span<const std::string_view> prefixes;  // what names have for the family's optional_prefix
  std::span<const std::string_view> not_text;  // how names of other parts' tensors begin
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
  std::span<const FieldValue> fixed;  // what no key says, since all models of the family have it
  std::span<const std::string_view> own;  // fields without a row above that every file has
  // An object of keys, and what transformers' class takes for them where a file lacks them, unless
  // that is what GptConfig begins with. A token beyond the vocabulary is none.
  std::string_view absent;
  std::span<const RefusedKey> refused;
  // Keys of the class, and of published files, that change no number, beside those of every family.
  std::span<const std::string_view> passed_over;
  std::span<const DerivedKey> derived;  // in the order of reading
  std::string_view activation_prefix;   // before activation_function, for other programs to stop at

  // Tensors
  std::span<const TensorRow> tensors;
  std::string_view optional_prefix;            // which names in a file may lack, all of them
  std::span<const std::string_view> not_read;  // ends of names of what is no parameter
  bool all_biases;  // files have all biases: zeros for those that a model does without

  Enclosing enclosing;

  // GGUF
  std::string_view gguf_architecture;
  std::span<const GgufKey> gguf_keys;
  std::span<const FieldValue> gguf_unsaid;  // what files mean that have no key of the field
  std::span<const std::string_view> gguf_by_tensors;  // fields that are true where such tensors are
  void (*gguf_by_sizes)(GptConfig& config);  // sets what follows from sizes; null: nothing does
  RopeTensors gguf_rope;                     // that files may have

  std::span<const Limit> limits;
};

// All of them. The first is GPT-2, for which files are taken that say nothing else; the last is
// "folio", which expresses every model, and which no other program takes for its own.
std::span<const Family> Families();
const Family& Gpt2Family();

// The reason why the family cannot express a model in files of a format, "norm_position = post,
// causal = false"; empty where it can.
std::string WhyNot(const Family& family, FileFormat format, const GptConfig& config);

// The family that the model is said to be of, or else the first, that can express it in files of a
// format; GPT-2 where none can.
const Family& FamilyFor(const GptConfig& config, FileFormat format);

// Says of which family the model is, unless it would be taken for one of that anyway.
void SetFamily(const Family& family, GptConfig& config);

// A model of the family as GGUF files say it that have no more keys than they must.
GptConfig GgufUnsaid(const Family& family);

// Returns whether a window keeps any layer from something: one as long as the context does not.
bool HasWindow(const GptConfig& config);

// The shortest text that gives the kinds of all layers when it is repeated.
std::string ShortestPattern(const std::string& kinds);

// Throws a kInput Error that begins with `what` and says why, unless files of the format can hold
// the model.
void RequireExpressed(const GptConfig& config, FileFormat format, const std::string& what);

// The same model with every bias.
GptConfig WithBiases(GptConfig config);

// The family's config.json of a model, without what it says of the weights beside it.
Json ConfigJsonOf(const Family& family, const GptConfig& config);

// The model that the family's class in transformers makes of an object: keys that are missing have
// the defaults of the class. Throws a kInput Error whose `what` begins with `where` for a value of
// the wrong type or range, and for one that folio does not implement. The fields may contradict
// each other.
GptConfig ConfigOfJson(const Family& family, const Json& given, const std::string& where);

// The same model with each size and scale said, or with none that others make what it is.
GptConfig WithAllSizes(GptConfig config);
GptConfig WithoutRedundantSizes(GptConfig config);

// Returns whether a family was made after GPT-2's time, and has its sizes all said.
inline bool SaysAllSizes(const Family& family) {
  return !family.derived.empty();
}

// Sets fields; errors begin with `where`.
void SetFields(std::span<const FieldValue> values, GptConfig& config, const std::string& where);

// The field of that key. REQUIRES: there is one.
const Field& FieldOf(std::span<const Field> fields, std::string_view key);

// The tensors of a family's models in files: found and written by the same table.

// The name of a parameter in files of a format: of `part` "weight" or "bias"; of several tensors
// that of the first. Empty where such files have none.
std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part);

// A tensor of a file, and the rows of a parameter, as stored, that it has.
struct RowsInFiles {
  std::string name;
  Shape shape;
  int64_t first_row = 0;
  RowOrder order = RowOrder::kAsHere;
};
// The tensors that files of a format have of a parameter.
std::vector<RowsInFiles> TensorsInFiles(const Family& family, FileFormat format,
                                        const GptConfig& config, const ParamRow& param);

// The tensor of that name in a file, or of the name without the family's optional prefix or with
// that of an enclosing model; null if there is none.
const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name);

// Throws a kInput Error that begins with `where` where so many tensors are too few for the model's
// blocks: called before a table of all parameters is made.
void RequireBlocks(const GptConfig& config, int64_t tensors, const std::string& where);

// Returns whether a file, where names are behind `prefix`, lacks the head's matrix or has the
// embeddings once more in its place.
bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix = "");

// The parameters of a model in a file, where names are behind `prefix`. Calls `other` for each
// tensor behind the prefix that is neither one of them, nor one that the family's readers pass
// over, nor a head that repeats the embeddings to which the model ties it; those of the other parts
// of an enclosing model the note tells. Throws a kInput Error where a parameter is missing or has
// another shape.
StoredModel FindParams(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const Family& family, FileFormat format,
                       const std::function<void(const TensorInfo&)>& other,
                       const std::string& prefix = "");

// The tensors to write for a model that files describe by `described`: in the order of its
// ParamTable, zeros for parameters that `weights` lack. `matrices` is the dtype of those that
// IsMatrix, the others are float32. `weights` must outlive them.
std::vector<TensorToWrite> TensorsToWrite(const GptWeights& weights, const GptConfig& described,
                                          const Family& family, FileFormat format, Dtype matrices);

}  // namespace folio
