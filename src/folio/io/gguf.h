#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/byte_reader.h"
#include "folio/io/tensor_file.h"

namespace folio {

// The GGUF format, of versions 2 and 3: keys with values, descriptions of tensors, then the data of
// each tensor at a multiple of "general.alignment" (32 unless it is there). All little-endian.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint64_t kGgufAlignment = 32;
inline constexpr uint64_t kGgufMaxName = 63;  // bytes
inline constexpr int kGgufMaxDims = 4;

// The type of a value, by its number in files.
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64
};

// A value as it lies in the file: `count` items of a type one after the other, which were seen to
// lie there.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of an item, never kArray
  bool array = false;             // else `count` is 1
  uint64_t count = 1;
  std::span<const std::byte> bytes = {};
};

// A GGUF file. Once opened it is sound from end to end (see TensorFile): keys and names are unique
// printable texts, and every tensor lies where the one before it ends. Shapes are row-major, so the
// other way round than ggml writes them. Arrays of arrays and tensors without elements are refused.
// A model in several files is opened by any of them: NAME-00001-of-00003.gguf has the keys, the
// others lie beside it, and all are named so, as llama.cpp's programs write them.
class GgufFile : public TensorFile {
 public:
  // A tensor of a type that folio does not have, which is not among tensors().
  struct Foreign {
    std::string name;
    std::string_view type;  // "IQ2_XS"
    Shape shape;
    uint64_t bytes = 0;
  };

  explicit GgufFile(const std::filesystem::path& path, Loading loading = Loading::kMap);

  std::span<const Foreign> foreign() const { return foreign_; }

  // The value of a key, empty where there is none. Throws a kInput Error if it is of another type
  // than the name says: integers and numbers of any size do, texts are as valid as this object.
  std::optional<int64_t> Integer(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<bool> Bool(std::string_view key) const;
  // 1 and 0 for true and false.
  std::optional<double> NumberOrTruth(std::string_view key) const;
  std::optional<std::string_view> Text(std::string_view key) const;
  // The items of an array, in order; false where there is no such key.
  bool Texts(std::string_view key,
             const std::function<void(size_t index, std::string_view text)>& visit) const;
  bool Integers(std::string_view key,
                const std::function<void(size_t index, int64_t value)>& visit) const;
  bool Floats(std::string_view key,
              const std::function<void(size_t index, float value)>& visit) const;
  bool Bools(std::string_view key,
             const std::function<void(size_t index, bool value)>& visit) const;
  // How many items an array has, or 0 where there is no such key.
  uint64_t Count(std::string_view key) const;
  bool IsArray(std::string_view key) const;
  // All keys that begin so, by name.
  std::vector<std::string_view> Keys(std::string_view prefix) const;

 private:
  using Values = std::map<std::string_view, GgufValue>;

  // Adds the tensors of one file, whose keys become values_.
  void AddPart(const std::filesystem::path& path, Loading loading);
  // The same for those that belong to it.
  void AddOtherParts(Loading loading);
  int64_t RequireInteger(std::string_view key) const;
  size_t tensor_count() const { return tensors().size() + foreign_.size(); }
  const GgufValue* FindValue(std::string_view key) const;
  [[noreturn]] void RefuseType(std::string_view key, std::string_view expected) const;

  Values values_;
  std::vector<Foreign> foreign_;
};

// The files of the model that a file is a part of, by its name; the file itself if it is none.
std::vector<std::filesystem::path> GgufParts(const std::filesystem::path& path);

// Returns whether a file begins as a GGUF file.
bool IsGguf(const std::filesystem::path& path);

// Keys and values to write, in the order in which they are added. REQUIRES of all: a key that was
// not added before; texts are UTF-8.
class GgufHeader {
 public:
  void AddU32(std::string_view key, uint32_t value) { Number(key, GgufType::kU32, value); }
  void AddF32(std::string_view key, float value) { Number(key, GgufType::kF32, value); }
  void AddBool(std::string_view key, bool value) { Number(key, GgufType::kBool, uint8_t{value}); }
  void AddText(std::string_view key, std::string_view value);
  void AddTexts(std::string_view key, std::span<const std::string> values);
  void AddI32s(std::string_view key, std::span<const int32_t> values);
  void AddF32s(std::string_view key, std::span<const float> values);
  void AddBools(std::string_view key, const std::vector<bool>& values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void Key(std::string_view key, GgufType type);
  template <class T>
  void Number(std::string_view key, GgufType type, T value) {
    Key(key, type);
    AppendLittleEndian(bytes_, value);
  }
  void Array(std::string_view key, GgufType type, size_t count);

  std::string bytes_;
  uint64_t count_ = 0;
};

// Writes a file of version 3, which appears whole or not at all. Names are shorter than 64 bytes,
// shapes of one to four sizes. Throws a kInput Error where a
// number cannot be written as its tensor's dtype, a kRuntime Error if it cannot be written.
void WriteGguf(const std::filesystem::path& path, const GgufHeader& header,
               std::span<const TensorToWrite> tensors);

}  // namespace folio
