#include "folio/model_files/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <variant>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/model/block.h"
#include "folio/model_files/families/tables.h"
#include "folio/tensor/memory_plan.h"

namespace folio {
namespace {

using enum FileFormat;

// The same model with no bias said that is as it would be anyway.
GptConfig WithoutRedundantBiases(GptConfig config) {
  if (config.qkv_bias == config.has_attention_bias()) config.qkv_bias.reset();
  if (config.attention_bias == config.bias) config.attention_bias.reset();
  if (config.mlp_bias == config.bias) config.mlp_bias.reset();
  return config;
}

// Why a model is not of the family, whatever the format: switches that stand otherwise.
void AddSwitches(const Family& family, const GptConfig& config, std::vector<std::string>& reasons) {
  GptConfig copy = WithoutRedundantBiases(config), plain;
  const std::vector<Field> defaults = plain.Fields();
  for (const GptRow& row : copy.Rows()) {
    if ((row.roles & GptRow::kSwitch) == 0) continue;
    const std::string& key = row.key;
    const auto fixed = std::ranges::find(family.fixed, key, &FieldValue::field);
    const bool says = std::ranges::count(family.own, key) > 0 ||
                      std::ranges::count(family.keys, key, &ConfigKey::field) > 0 ||
                      std::ranges::count(family.derived, key, &DerivedKey::field) > 0;
    if (fixed == family.fixed.end() && says) continue;
    const std::string expected =
        fixed == family.fixed.end() ? FieldText(FieldOf(defaults, key)) : std::string(fixed->value);
    const std::string found = FieldText(row);
    if (found != expected) reasons.push_back(fmt::format("{} = {}", key, found));
  }
}

void CopyFields(std::span<const std::string_view> keys, const GptConfig& from, GptConfig& to) {
  GptConfig copy = from;
  const std::vector<Field> fields = copy.Fields(), targets = to.Fields();
  for (const std::string_view key : keys) {
    SetField(FieldOf(targets, key), FieldText(FieldOf(fields, key)), "a family");
  }
}

// The fields of keys that are written.
std::vector<std::string_view> WrittenFields(const Family& family) {
  std::vector<std::string_view> fields;
  for (const GgufKey& key : family.gguf_keys) {
    if (key.use != GgufKey::Use::kOnlyRead && !key.field.empty()) fields.push_back(key.field);
  }
  return fields;
}

// The model that a GGUF file of it would be read as.
GptConfig AsGgufSays(const Family& family, const GptConfig& config) {
  constexpr auto kRope =
      std::to_array<std::string_view>({"rope_scaling", "rope_factor", "rope_original_positions"});
  constexpr auto kLongRope = std::to_array<std::string_view>(
      {"rope_short_factors", "rope_long_factors", "rope_attention_factor"});
  GptConfig said = GgufUnsaid(family);
  CopyFields(WrittenFields(family), WithAllSizes(config), said);
  CopyFields(family.gguf_by_tensors, config, said);
  const bool llama3 = config.rope_scaling == RopeScaling::kLlama3,
             longrope = config.rope_scaling == RopeScaling::kLongRope;
  if ((!llama3 || family.gguf_rope == RopeTensors::kDivisors) &&
      (!longrope || family.gguf_rope == RopeTensors::kShortAndLong)) {
    CopyFields(kRope, config, said);
    if (longrope) CopyFields(kLongRope, config, said);
  }
  if (family.gguf_by_sizes != nullptr) family.gguf_by_sizes(said);
  return said;
}

std::string KindsOfLayers(const GptConfig& config) {
  const std::string letters = LayerKindsText(config.layer_kinds);
  std::string kinds;
  for (size_t l = 0; std::cmp_less(l, config.n_layer); ++l) kinds += letters[l % letters.size()];
  return kinds;
}

// The same model with each of these said: sizes, which parts have biases, and what scores are
// multiplied with.
GptConfig WithAllSaid(const GptConfig& model) {
  GptConfig config = WithAllSizes(WithoutRedundantSizes(model));
  config.layer_norm_bias = config.has_layer_norm_bias();
  config.qkv_bias = config.has_qkv_bias();
  config.attention_bias = config.has_attention_bias();
  config.mlp_bias = config.has_mlp_bias();
  config.bias = false;
  config.attention_scale = config.layer(0).score_scale;
  return config;
}

// Returns whether both are the same, but for how a number was rounded on its way through a file.
bool SameValue(const Field& a, const Field& b) {
  if (FieldText(a) == FieldText(b)) return true;
  const auto *const x = std::get_if<double*>(&a.value), *const y = std::get_if<double*>(&b.value);
  return x != nullptr && y != nullptr && std::abs(**x - **y) <= 1e-12 * std::abs(**x);
}

// Why files would be read as another model: `read` is what they would be read as.
void AddMisread(const GptConfig& model, const GptConfig& read, std::vector<std::string>& reasons) {
  constexpr auto kOfWindows =
      std::to_array<std::string_view>({"sliding_window", "layer_kinds", "rope_window_theta"});
  const bool windows = HasWindow(WithoutRedundantSizes(model));
  GptConfig config = WithAllSaid(model), said = WithAllSaid(read);
  const std::vector<GptRow> rows = config.Rows();
  const std::vector<Field> others = said.Fields();
  for (const unsigned role : {GptRow::kSwitch, GptRow::kDetail}) {
    for (const GptRow& row : rows) {
      if ((row.roles & role) == 0) continue;
      if (!windows && std::ranges::count(kOfWindows, row.key) > 0) continue;
      if (SameValue(row, FieldOf(others, row.key))) continue;
      reasons.push_back(fmt::format("{} = {}", row.key, FieldText(row)));
    }
  }
}

}  // namespace

std::span<const Family> Families() {
  static const std::array kFamilies = {
      Gpt2Table(),  LlamaTable(), MistralTable(),  SmolLm3Table(),
      Qwen2Table(), Qwen3Table(), Gemma2Table(),   Gemma3Table(),
      Olmo2Table(), Phi3Table(),  GraniteTable(),  Starcoder2Table(),
      NeoxTable(),  PhiTable(),   NanochatTable(), FolioTable()};
  return kFamilies;
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names = {""};
  for (const Family& family : Families()) names.emplace_back(family.model_type);
  return names;
}

const Family& Gpt2Family() {
  return Families().front();
}

GptConfig GgufUnsaid(const Family& family) {
  GptConfig config;
  SetFields(family.fixed, config, "a family");
  config.activation_function = ConfigOfJson(family, Json::object(), "a family").activation_function;
  SetFields(family.gguf_unsaid, config, "a family");
  return config;
}

bool HasWindow(const GptConfig& config) {
  if (!config.has_window()) return false;
  return *config.sliding_window < config.n_positions || config.rope_window_theta > 0;
}

std::string ShortestPattern(const std::string& kinds) {
  for (size_t period = 1; period < kinds.size(); ++period) {
    if (kinds.compare(period, kinds.npos, kinds, 0, kinds.size() - period) == 0) {
      return kinds.substr(0, period);
    }
  }
  return kinds;
}

std::string WhyNot(const Family& family, FileFormat format, const GptConfig& config) {
  std::vector<std::string> reasons;
  const bool gguf = format == kGguf && SaysAllSizes(family);
  if (gguf) {
    AddMisread(config, AsGgufSays(family, config), reasons);
  } else if (&family != &Families().back()) {
    AddSwitches(family, config, reasons);
  }
  GptConfig copy = config;
  const std::vector<Field> fields = copy.Fields();
  for (const Limit& limit : family.limits) {
    if ((limit.formats & Formats(format)) == 0 || limit.holds(config)) continue;
    reasons.push_back(fmt::format("{} = {}", limit.field, FieldText(FieldOf(fields, limit.field))));
  }
  if (reasons.empty() && format == kHuggingFace && SaysAllSizes(family)) {
    AddMisread(config, ConfigOfJson(family, ConfigJsonOf(family, config), "config.json"), reasons);
  }
  return Join(reasons, ", ");
}

const Family& FamilyFor(const GptConfig& config, FileFormat format) {
  const auto families = Families();
  const auto fits = [&](const Family& family) {
    return (family.formats & Formats(format)) != 0 && WhyNot(family, format, config).empty();
  };
  const auto said = std::ranges::find(families, config.model_type, &Family::model_type);
  if (said != families.end() && fits(*said)) return *said;
  const auto found = std::ranges::find_if(families, fits);
  return found == families.end() ? Gpt2Family() : *found;
}

void SetFamily(const Family& family, GptConfig& config) {
  config.model_type.clear();
  if (!WhyNot(family, kHuggingFace, config).empty()) return;  // as folio saved its own before
  if (FamilyFor(config, kHuggingFace).model_type != family.model_type) {
    config.model_type = family.model_type;
  }
}

void RequireExpressed(const GptConfig& config, FileFormat format, const std::string& what) {
  if (WhyNot(FamilyFor(config, format), format, config).empty()) return;
  const Family& own = FamilyFor(config, kHuggingFace);
  const Family& family = (own.formats & Formats(format)) != 0 ? own : Gpt2Family();
  const std::string_view name = &family == &Gpt2Family() ? "GPT-2" : family.model_type;
  throw InputError(what,
                   fmt::format("it uses {}, which {} does not have in that program",
                               WhyNot(family, format, config), name),
                   "convert to hf, or train without it");
}

GptConfig WithBiases(GptConfig config) {
  config.bias = true;
  config.attention_bias = config.mlp_bias = config.layer_norm_bias = std::nullopt;
  return config;
}

GptConfig WithAllSizes(GptConfig config) {
  const HeadLayout heads = config.head_layout();
  config.n_kv_head = heads.kv_heads;
  config.head_dim = heads.head_dim;
  config.n_inner = config.inner();
  config.rotary_dim = config.rotary_width();
  config.rope_original_positions = config.rope_positions();
  const bool windows = config.has_window();
  if (config.rope_window_theta == 0 && (!windows || config.rope_scaling == RopeScaling::kDefault)) {
    config.rope_window_theta = config.rope_theta;
  }
  return config;
}

GptConfig WithoutRedundantSizes(GptConfig config) {
  const bool divides = config.n_embd % config.n_head == 0;
  if (config.n_kv_head == config.n_head) config.n_kv_head.reset();
  if (config.rotary_dim == config.head_size()) config.rotary_dim.reset();
  if (divides && config.head_dim == config.n_embd / config.n_head) config.head_dim.reset();
  if (config.n_inner == 4 * config.n_embd) config.n_inner.reset();
  if (config.attention_bias == config.bias) config.attention_bias.reset();
  if (config.mlp_bias == config.bias) config.mlp_bias.reset();
  if (config.rope_original_positions == config.n_positions) config.rope_original_positions.reset();
  GptConfig unscaled = config;
  unscaled.attention_scale = 0;
  if (config.layer(0).score_scale == unscaled.layer(0).score_scale) config.attention_scale = 0;
  config.layer_kinds = LayerKindsOf(ShortestPattern(KindsOfLayers(config)));
  if (!config.has_window()) {
    config.sliding_window.reset();
    config.layer_kinds = LayerKindsOf("f");
  }
  const bool same_theta =
      config.rope_window_theta == config.rope_theta && config.rope_scaling == RopeScaling::kDefault;
  if (!config.sliding_window || same_theta) config.rope_window_theta = 0;
  if (config.no_rope_every > config.n_layer) config.no_rope_every = 0;
  return config;
}

void SetFields(std::span<const FieldValue> values, GptConfig& config, const std::string& where) {
  const std::vector<Field> fields = config.Fields();
  for (const auto& [field, value] : values) {
    SetField(FieldOf(fields, field), std::string(value), where);
  }
}

const Field& FieldOf(std::span<const Field> fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &Field::key);
  FOLIO_CHECK(found != fields.end(), "a family names a field that the configuration lacks");
  return *found;
}

namespace {

constexpr std::string_view kBlockNumber = "{}";

const FileTensor& RowInFiles(const Family& family, FileFormat format, std::string_view module) {
  const auto row = std::ranges::find(family.tensors, module, &TensorRow::module);
  FOLIO_CHECK(row != family.tensors.end(), "a module without a row in the family");
  return row->files[static_cast<size_t>(format)];
}

Transform TransformOf(const Family& family, FileFormat format, const ParamRow& param) {
  return param.part == "weight" ? RowInFiles(family, format, param.module).transform
                                : Transform::kNone;
}

// A name of the table, of a block's weight or bias.
std::string FullName(std::string_view pattern, int64_t layer, std::string_view part) {
  std::string name(pattern);
  if (const size_t at = name.find(kBlockNumber); at != name.npos) {
    name.replace(at, kBlockNumber.size(), fmt::format("{}", layer));
  }
  if (part == "weight" || name.empty()) return name;
  const size_t end = name.find_last_of("./");
  return name.substr(0, end + 1) + (name[end] == '/' ? "b" : "bias");
}

bool SameNumbers(const TensorInfo& a, const TensorInfo& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.data == b.data || std::memcmp(a.data, b.data, a.bytes) == 0);
}

}  // namespace

std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part) {
  return FullName(RowInFiles(family, format, module).name(), layer, part);
}

std::vector<RowsInFiles> TensorsInFiles(const Family& family, FileFormat format,
                                        const GptConfig& config, const ParamRow& param) {
  const FileTensor& row = RowInFiles(family, format, param.module);
  const Transform transform = TransformOf(family, format, param);
  if (transform == Transform::kUnitAxis) {
    return {{.name = FullName(row.name(), param.layer, param.part),
             .shape = {1, param.shape[0], param.shape[1]}}};
  }
  const Shape stored = StoredShape(param.shape, transform == Transform::kTranspose);
  const HeadLayout heads = config.head_layout();
  const bool qkv = param.module == kCAttn.name;
  const std::array<int64_t, 3> rows = {qkv ? heads.q_width() : config.inner(),
                                       qkv ? heads.kv_width() : config.inner(), heads.kv_width()};
  std::vector<RowsInFiles> tensors;
  int64_t first = 0;
  const bool several = !row.names[1].empty();
  for (size_t i = 0; i < row.names.size() && !row.names[i].empty(); ++i) {
    Shape shape = stored;
    if (several) shape = stored.rank() == 1 ? Shape{rows[i]} : Shape{rows[i], stored[1]};
    tensors.push_back({.name = FullName(row.names[i], param.layer, param.part),
                       .shape = shape,
                       .first_row = first,
                       .order = several && i == 2 ? RowOrder::kAsHere : row.order});
    first += shape[0];
  }
  return tensors;
}

const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name) {
  const TensorInfo* found = file.Find(name);
  if (found != nullptr || !name.starts_with(family.optional_prefix)) return found;
  const std::string_view rest = name.substr(family.optional_prefix.size());
  for (const std::string_view prefix : family.enclosing.prefixes) {
    found = file.Find(fmt::format("{}{}", prefix, rest));
    if (found != nullptr) return found;
  }
  return file.Find(rest);
}

void RequireBlocks(const GptConfig& config, int64_t tensors, const std::string& where) {
  const int64_t least = kLinearLayers.size();
  if (config.n_layer <= tensors / least) return;
  throw InputError(fmt::format("{}: fewer tensors than the model has", where),
                   fmt::format("it has {}, and n_layer is {}", tensors, config.n_layer),
                   "check n_layer, or copy the model again: it may be damaged");
}

bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix) {
  const auto name = [&](std::string_view module) {
    return prefix + NameInFiles(family, format, -1, module, "weight");
  };
  const TensorInfo* head = file.Find(name(kHeadName));
  return head == nullptr || SameNumbers(*head, file.Require(name("wte")));
}

namespace {

// A parameter whose tensors in a file are found: where it lies, if it lies there as it is needed.
StoredParam Assembled(const GptConfig& config, std::span<const StoredRows> rows, const Shape& shape,
                      bool transposed, float add) {
  StoredParam param{.from = rows.front().from, .transposed = transposed};
  param.from.shape = StoredShape(shape, transposed);
  if (rows.size() == 1 && rows.front().order == RowOrder::kAsHere && add == 0) return param;
  param.rows.assign(rows.begin(), rows.end());
  param.heads = config.head_layout();
  param.add = add;
  param.from.data = nullptr;
  // Float32 holds what rows of several dtypes become, what is added to, and a vector in blocks,
  // which is cut up number by number.
  const auto other = [&](const StoredRows& one) { return one.from.dtype != param.from.dtype; };
  if (std::ranges::any_of(rows, other) || add != 0 ||
      (shape.rank() == 1 && IsBlocked(param.from.dtype))) {
    param.from.dtype = Dtype::kF32;
  }
  param.from.bytes = DtypeBytes(param.from.dtype, shape.count());
  return param;
}

// The tensors of a parameter in a file. Some files of GGUF have q | k | v as one where those of
// the family have three, as Phi-2's had before.
std::vector<RowsInFiles> PartsIn(const TensorFile& file, const Family& family, FileFormat format,
                                 const GptConfig& config, const ParamInfo& param) {
  constexpr std::string_view kOne = ".attn_q.", kAll = ".attn_qkv.";
  std::vector<RowsInFiles> parts = TensorsInFiles(family, format, config, param);
  std::string name = parts.front().name;
  const size_t at = name.find(kOne);
  if (format != kGguf || at == name.npos || file.Find(name) != nullptr ||
      parts.front().order != RowOrder::kAsHere) {
    return parts;
  }
  name.replace(at, kOne.size(), kAll);
  if (file.Find(name) == nullptr) return parts;
  Shape shape = param.shape;
  if (shape.rank() == 2) shape = StoredShape(shape, /*transposed=*/true);
  return {{.name = std::move(name), .shape = shape}};
}

}  // namespace

StoredModel FindParams(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const Family& family, FileFormat format,
                       const std::function<void(const TensorInfo&)>& other,
                       const std::string& prefix) {
  StoredModel model{.config = config, .file = std::move(file)};
  std::set<std::string_view> used;
  const ParamTable table(config);
  for (const ParamInfo& info : table.params()) {
    std::vector<StoredRows> rows;
    for (const RowsInFiles& part : PartsIn(*model.file, family, format, config, info)) {
      const std::string name = prefix + part.name;
      const TensorInfo* there = FindTensor(*model.file, family, name);
      const TensorInfo& found =
          model.file->Require(there == nullptr ? name : there->name, part.shape);
      model.file->RequireFloating(found);
      rows.push_back({found, part.order});
      used.insert(found.name);
    }
    const FileTensor& row = RowInFiles(family, format, info.module);
    model.params.push_back(Assembled(config, rows, info.shape,
                                     TransformOf(family, format, info) == Transform::kTranspose,
                                     -row.offset));
  }
  const TensorInfo& wte = model.params.front().from;
  const std::string head = prefix + NameInFiles(family, format, -1, kHeadName, "weight");
  int64_t set_aside = 0;
  for (const TensorInfo& info : model.file->tensors()) {
    const auto begins = [&](std::string_view start) { return info.name.starts_with(start); };
    if (std::ranges::any_of(family.enclosing.not_text, begins)) {
      ++set_aside;
      continue;
    }
    const auto ends = [&](std::string_view end) { return info.name.ends_with(end); };
    const bool repeated = config.tie_word_embeddings && info.name == head && SameNumbers(info, wte);
    if (repeated || used.contains(info.name) || !info.name.starts_with(prefix) ||
        std::ranges::any_of(family.not_read, ends)) {
      continue;
    }
    other(info);
  }
  if (set_aside > 0) {
    model.note =
        fmt::format("{} tensors of other parts are ignored: folio supports the text model of {}",
                    set_aside, family.enclosing.model_type);
  }
  return model;
}

namespace {

// The host's copy of the tensor that was asked for last. Tensors are read one after the other, each
// by several threads.
class LastHostCopy {
 public:
  const Tensor& Of(const Tensor& x) {
    if (x.on_host()) return x;
    const std::scoped_lock lock(mutex_);
    if (address_ != x.address()) copy_.emplace(x);
    address_ = x.address();
    return copy_->tensor();
  }

 private:
  std::mutex mutex_;
  const std::byte* address_ = nullptr;
  std::optional<HostCopy> copy_;
};

}  // namespace

std::vector<TensorToWrite> TensorsToWrite(const GptWeights& weights, const GptConfig& described,
                                          const Family& family, FileFormat format, Dtype matrices) {
  const auto ours = TensorsByName(weights);
  std::vector<TensorToWrite> tensors;
  const auto copy = std::make_shared<LastHostCopy>();
  const ParamTable table(described);
  for (const ParamInfo& info : table.params()) {
    const bool transposed = TransformOf(family, format, info) == Transform::kTranspose;
    const auto found = ours.find(info.name);
    const Tensor* source = found == ours.end() ? nullptr : found->second;
    for (const RowsInFiles& part : TensorsInFiles(family, format, described, info)) {
      const float offset = RowInFiles(family, format, info.module).offset;
      const auto read = [source, copy, transposed, offset, first = part.first_row,
                         order = part.order,
                         heads = described.head_layout()](int64_t row, std::span<float> out) {
        if (source == nullptr) {
          std::ranges::fill(out, 0.0f);
          return;
        }
        // A vector is one row in a file, and has a number of each row of the matrix beside it.
        const Tensor& here = copy->Of(*source);
        const bool vector = here.shape().rank() == 1;
        const Tensor rows = vector ? here.Reshape({here.count(), 1}) : here;
        const bool as_here = order == RowOrder::kAsHere;
        const size_t step =
            as_here ? out.size() : static_cast<size_t>(rows.dim(transposed ? 0 : 1));
        for (size_t at = 0; at < out.size(); at += step, ++row) {
          const int64_t from = as_here ? row : RowAt(order, heads, row);
          GatherRows(rows, transposed, first + from, out.subspan(at, step));
        }
        AddOffset(offset, out);
      };
      tensors.push_back({part.name, IsMatrix(info) ? matrices : Dtype::kF32, part.shape, read});
    }
  }
  return tensors;
}

}  // namespace folio
