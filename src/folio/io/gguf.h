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

// A value in the file: `count` consecutive items of one type, checked to be inside of the file.
struct GgufValue {
  GgufType type = GgufType::kU8;  // type of an item, never kArray
  bool array = false;             // false: `count` is 1
  uint64_t count = 1;
  std::span<const std::byte> bytes = {};
};

// A GGUF file. Once opened it is sound from end to end (see TensorFile): keys and names are unique
// printable texts, and every tensor begins where the one before it ends. Shapes are row-major, the
// reverse of ggml's order. Arrays of arrays and tensors without elements are refused. A model in
// several files is opened by any of them: NAME-00001-of-00003.gguf has the keys, the others are in
// the same directory and named the same way, as llama.cpp's programs write them.
class GgufFile : public TensorFile {
 public:
  // A tensor of a type that folio does not have; it is not among tensors().
  struct Foreign {
    std::string name;
    std::string_view type;  // "IQ2_XS"
    Shape shape;
    uint64_t bytes = 0;
  };

  explicit GgufFile(const std::filesystem::path& path, Loading loading = Loading::kMap);

  std::span<const Foreign> foreign() const { return foreign_; }

  // The value of a key, empty if there is none. Throws a kInput Error if it has another type than
  // the function's name says: integers and numbers may have any size; texts are valid as long as
  // this object.
  std::optional<int64_t> Integer(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<bool> Bool(std::string_view key) const;
  // 1 and 0 for true and false.
  std::optional<double> NumberOrTruth(std::string_view key) const;
  std::optional<std::string_view> Text(std::string_view key) const;
  // The items of an array, in order; false if there is no such key.
  bool Texts(std::string_view key,
             const std::function<void(size_t index, std::string_view text)>& visit) const;
  bool Integers(std::string_view key,
                const std::function<void(size_t index, int64_t value)>& visit) const;
  bool Floats(std::string_view key,
              const std::function<void(size_t index, float value)>& visit) const;
  bool Bools(std::string_view key,
             const std::function<void(size_t index, bool value)>& visit) const;
  // The number of items of an array, or 0 if there is no such key.
  uint64_t Count(std::string_view key) const;
  bool IsArray(std::string_view key) const;
  // All keys with this prefix, sorted by name.
  std::vector<std::string_view> Keys(std::string_view prefix) const;

 private:
  using Values = std::map<std::string_view, GgufValue>;

  // Adds the tensors of one file, and takes its keys as values_.
  void AddPart(const std::filesystem::path& path, Loading loading);
  // Does the same for the other files of the model.
  void AddOtherParts(Loading loading);
  int64_t RequireInteger(std::string_view key) const;
  size_t tensor_count() const { return tensors().size() + foreign_.size(); }
  const GgufValue* FindValue(std::string_view key) const;
  [[noreturn]] void RefuseType(std::string_view key, std::string_view expected) const;

  Values values_;
  std::vector<Foreign> foreign_;
};

// All files of the model that this file is a part of, found by their names; only the file itself if
// it is no part.
std::vector<std::filesystem::path> GgufParts(const std::filesystem::path& path);

// Returns true if a file begins like a GGUF file.
bool IsGguf(const std::filesystem::path& path);

// Keys and values to write, in the order in which they are added. REQUIRES for all: a new key;
// texts are UTF-8.
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

// Writes a file of version 3, atomically. Names are shorter than 64 bytes, shapes have one to four
// sizes. Throws a kInput Error if a number cannot be written as its tensor's dtype, a kRuntime
// Error if the file cannot be written.
void WriteGguf(const std::filesystem::path& path, const GgufHeader& header,
               std::span<const TensorToWrite> tensors);

}  // namespace folio
