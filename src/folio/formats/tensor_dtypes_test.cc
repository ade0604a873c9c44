// Models of several families of which one tensor after the other is of each dtype that a format
// has: they open with the numbers that lie there, or are refused by the tensor's name and the
// dtype's.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/formats/gguf_model.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/gguf_bytes.h"
#include "tests/kit/paths.h"
#include "tests/kit/safetensors_bytes.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A dtype of a format: how it is spelt there, and the bytes of `block` numbers.
struct Kind {
  std::string name;
  size_t block = 1, bytes = 0;
  uint32_t id = 0;  // in GGUF files
  std::optional<Dtype> dtype = {};
};

struct Part {
  std::string name;
  Kind kind;
  Shape shape;
  std::string bytes;
};

Kind Float32() {
  return {.name = "F32", .bytes = 4, .id = 0, .dtype = Dtype::kF32};
}

// Bits that are small finite numbers in every floating dtype, also as scales of blocks.
std::string SomeBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(0x21 + i * 7 % 16);
  return bytes;
}

// The part as `kind`; without bytes where its rows are not whole blocks.
Part As(const Part& part, const Kind& kind) {
  const auto count = static_cast<size_t>(part.shape.count());
  Part other{part.name, kind, part.shape, ""};
  if (static_cast<size_t>(part.shape.back()) % kind.block == 0) {
    other.bytes = SomeBytes(count / kind.block * kind.bytes);
  }
  return other;
}

// The numbers of such a part.
Part AsFloat32(const Part& part) {
  std::vector<float> numbers(static_cast<size_t>(part.shape.count()));
  DecodeFloats(reinterpret_cast<const std::byte*>(part.bytes.data()), *part.kind.dtype, numbers);
  const auto* const bytes = reinterpret_cast<const char*>(numbers.data());
  return {part.name, Float32(), part.shape, std::string(bytes, numbers.size() * sizeof(float))};
}

std::vector<Part> PartsOf(const TensorFile& file) {
  std::vector<Part> parts;
  for (const TensorInfo& info : file.tensors()) {
    parts.push_back({info.name, Float32(), info.shape,
                     std::string(reinterpret_cast<const char*>(info.data), info.bytes)});
  }
  return parts;
}

class TensorDtypes : public InTemporaryDirectory {
 protected:
  using Write = std::function<void(const std::vector<Part>& parts)>;

  // Makes each of the tensors each of the kinds, in what `write` writes to `path`.
  // Each tensor of the first models is of each kind, those of the others, whose files differ in how
  // some tensors lie, of one after the other.
  void ExpectAll(std::vector<Part> parts, const std::vector<Kind>& kinds, const fs::path& path,
                 const Write& write) {
    const bool all = models_++ < 2;
    size_t turn = 0;
    for (Part& part : parts) {
      const Part before = part;
      for (const Kind& kind : kinds) {
        if (!all && turn++ % 7 != 0) continue;
        part = As(before, kind);
        write(parts);
        const std::string where = fmt::format("{} as {}", part.name, kind.name);
        const bool readable = kind.dtype && IsFloating(*kind.dtype) && !part.bytes.empty();
        if (!readable) {
          const std::string_view dtype = kind.dtype ? DtypeName(*kind.dtype) : kind.name;
          EXPECT_TRUE(
              Contains(ErrorAndHelp([&] { MapWeights(FindModel(path).model); }), part.name, dtype))
              << where;
          ++refused_;
          continue;
        }
        const FoundModel found = FindModel(path, Loading::kRead);
        MapWeights(found.model, {.as_stored = true});
        const auto mapped = MapWeights(found.model), read = ReadWeights(found.model);
        part = AsFloat32(part);
        write(parts);
        const auto expected = ReadWeights(FindModel(path).model);
        EXPECT_TRUE(SameNumbers(*mapped, *expected)) << where;
        EXPECT_TRUE(SameNumbers(*read, *expected)) << where;
        ++opened_;
      }
      part = before;
    }
  }

  int64_t models_ = 0, opened_ = 0, refused_ = 0;
};

// All of the format's.
std::vector<Kind> SafetensorsKinds() {
  std::vector<Kind> kinds;
  for (const auto& [name, bits] : std::initializer_list<std::pair<const char*, size_t>>{
           {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
           {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
           {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
           {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
           {"I64", 64},        {"U64", 64}}) {
    kinds.push_back({.name = name, .block = 8, .bytes = bits, .dtype = DtypeFromName(name)});
  }
  return kinds;
}

TEST_F(TensorDtypes, OfSafetensors) {
  for (const GptConfig& config : SmallFamilies(16)) {
    const GptWeights weights(config);
    Scatter(weights, 3);
    SaveModel(At(""), weights);
    const std::vector<Part> parts = PartsOf(SafetensorsFile(At(kWeightsFile), Loading::kRead));
    ExpectAll(parts, SafetensorsKinds(), At(""), [&](const std::vector<Part>& changed) {
      std::string header, data;
      for (const Part& part : changed) {
        const size_t begin = data.size();
        data += part.bytes;
        header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                              header.empty() ? "" : ",", part.name, part.kind.name,
                              fmt::join(part.shape.dims(), ","), begin, data.size());
      }
      PutFile(kWeightsFile, SafetensorsBytes("{" + header + "}", data));
    });
  }
  EXPECT_GT(opened_, 100);
  EXPECT_GT(refused_, 300);
}

// The types of ggml by their numbers, up to the newest.
std::vector<Kind> GgufKinds() {
  std::vector<Kind> kinds = {
      {"F32", 1, 4, 0},         {"F16", 1, 2, 1},         {"Q4_0", 32, 18, 2},
      {"Q4_1", 32, 20, 3},      {"Q5_0", 32, 22, 6},      {"Q5_1", 32, 24, 7},
      {"Q8_0", 32, 34, 8},      {"Q8_1", 32, 40, 9},      {"Q2_K", 256, 84, 10},
      {"Q3_K", 256, 110, 11},   {"Q4_K", 256, 144, 12},   {"Q5_K", 256, 176, 13},
      {"Q6_K", 256, 210, 14},   {"Q8_K", 256, 292, 15},   {"IQ2_XXS", 256, 66, 16},
      {"IQ2_XS", 256, 74, 17},  {"IQ3_XXS", 256, 98, 18}, {"IQ1_S", 256, 50, 19},
      {"IQ4_NL", 32, 18, 20},   {"IQ3_S", 256, 110, 21},  {"IQ2_S", 256, 82, 22},
      {"IQ4_XS", 256, 136, 23}, {"I8", 1, 1, 24},         {"I16", 1, 2, 25},
      {"I32", 1, 4, 26},        {"I64", 1, 8, 27},        {"F64", 1, 8, 28},
      {"IQ1_M", 256, 56, 29},   {"BF16", 1, 2, 30},       {"TQ1_0", 256, 54, 34},
      {"TQ2_0", 256, 66, 35},   {"MXFP4", 32, 17, 39},    {"NVFP4", 64, 36, 40}};
  for (Kind& kind : kinds) kind.dtype = DtypeFromGgml(kind.id);
  return kinds;
}

TEST_F(TensorDtypes, OfGguf) {
  for (const int64_t width : {64, 256}) {
    std::vector<GptConfig> configs = SmallFamilies(width);
    // One of the wide models, which the large blocks need, has biases and rows in another order.
    if (width == 256) configs = {configs[1]};
    for (const GptConfig& config : configs) {
      const GptWeights weights(config);
      Scatter(weights, 3);
      fs::remove(At("m.gguf"));
      SaveGgufModel(At("m.gguf"), {.weights = weights});
      const std::vector<Part> parts = PartsOf(GgufFile(At("m.gguf"), Loading::kRead));
      const std::string file = ReadFile(At("m.gguf"));
      GgufBytes header;
      constexpr size_t kKeys = 24;
      std::memcpy(&header.key_count, file.data() + 16, sizeof(header.key_count));
      header.keys = file.substr(kKeys, file.find(GgufBytes::Text(parts[0].name)) - kKeys);
      ExpectAll(parts, GgufKinds(), At("m.gguf"), [&](const std::vector<Part>& changed) {
        GgufBytes bytes = header;
        for (const Part& part : changed) {
          std::vector<uint64_t> dims;
          for (int i = part.shape.rank(); i > 0; --i) {
            dims.push_back(static_cast<uint64_t>(part.shape[i - 1]));
          }
          bytes.Tensor(part.name, dims, part.kind.id, part.bytes);
        }
        PutFile("m.gguf", bytes.File());
      });
    }
  }
  EXPECT_GT(opened_, 300);
  EXPECT_GT(refused_, 300);
}

// Returns the kinds with a storage of their own, and those that name a dtype in the newer way.
std::vector<Kind> TorchKinds() {
  std::vector<Kind> kinds = {{.name = "FloatStorage", .bytes = 4, .dtype = Dtype::kF32},
                             {.name = "DoubleStorage", .bytes = 8, .dtype = Dtype::kF64},
                             {.name = "HalfStorage", .bytes = 2, .dtype = Dtype::kF16},
                             {.name = "BFloat16Storage", .bytes = 2, .dtype = Dtype::kBF16},
                             {.name = "LongStorage", .bytes = 8, .dtype = Dtype::kI64},
                             {.name = "IntStorage", .bytes = 4, .dtype = Dtype::kI32},
                             {.name = "ShortStorage", .bytes = 2, .dtype = Dtype::kI16},
                             {.name = "CharStorage", .bytes = 1, .dtype = Dtype::kI8},
                             {.name = "ByteStorage", .bytes = 1, .dtype = Dtype::kU8},
                             {.name = "BoolStorage", .bytes = 1, .dtype = Dtype::kBool},
                             {.name = "ComplexFloatStorage", .bytes = 8},
                             {.name = "ComplexDoubleStorage", .bytes = 16}};
  for (const char* name :
       {"uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"}) {
    kinds.push_back({.name = name, .bytes = 1});
  }
  return kinds;
}

std::string PickledPart(const Part& part, const std::string& key) {
  std::vector<int64_t> sizes(part.shape.dims().begin(), part.shape.dims().end());
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  if (part.kind.name.ends_with("Storage")) {
    return PickleTensor(part.kind.name, key, part.shape.count(), 0, sizes, strides);
  }
  return "ctorch._utils\n_rebuild_tensor_v3\n((" + PickleText("storage") +
         "ctorch.storage\nUntypedStorage\n" + PickleText(key) + PickleText("cpu") +
         PickleInt(part.shape.count()) + "tQ" + PickleInt(0) + PickleTuple(sizes) +
         PickleTuple(strides) + "\x89" + "ccollections\nOrderedDict\n)R" + "ctorch\n" +
         part.kind.name + "\ntR";
}

TEST_F(TensorDtypes, OfPyTorch) {
  for (const GptConfig& config : SmallFamilies(16)) {
    const GptWeights weights(config);
    Scatter(weights, 3);
    SaveModel(At(""), weights);
    std::vector<Part> parts = PartsOf(SafetensorsFile(At(kWeightsFile), Loading::kRead));
    for (Part& part : parts) part.kind.name = "FloatStorage";
    fs::remove(At(kWeightsFile));
    ExpectAll(parts, TorchKinds(), At(""), [&](const std::vector<Part>& changed) {
      ZipFiles items;
      std::vector<std::string> storages;
      for (Part part : changed) {
        if (part.kind.name == "F32") part.kind.name = "FloatStorage";
        items.emplace_back(part.name, PickledPart(part, std::to_string(storages.size())));
        storages.push_back(part.bytes);
      }
      PutFile(kTorchWeightsFile, TorchBytes(PickleDict(items), storages));
    });
  }
  EXPECT_GT(opened_, 100);
  EXPECT_GT(refused_, 300);
}

}  // namespace
}  // namespace folio
