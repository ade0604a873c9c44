#include "folio/text/byte_names.h"

#include "folio/base/utf8.h"

namespace folio {
namespace {

constexpr char32_t kFirstOther = 0x100;  // the name of the first byte that has not its own
constexpr size_t kNames = 0x144;

constexpr bool IsOwnName(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct NameTables {
  std::array<uint8_t, 256> order = {};
  std::array<char32_t, 256> names = {};
  std::array<int16_t, kNames> bytes = {};  // of a name; -1 if it is none
};

constexpr NameTables MakeTables() {
  NameTables tables;
  for (int16_t& byte : tables.bytes) byte = -1;
  size_t id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (IsOwnName(byte)) tables.order[id++] = static_cast<uint8_t>(byte);
  }
  char32_t other = kFirstOther;
  for (int byte = 0; byte < 256; ++byte) {
    const bool own = IsOwnName(byte);
    if (!own) tables.order[id++] = static_cast<uint8_t>(byte);
    const char32_t name = own ? static_cast<char32_t>(byte) : other++;
    tables.names[static_cast<size_t>(byte)] = name;
    tables.bytes[name] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr NameTables kNameTables = MakeTables();

}  // namespace

const std::array<uint8_t, 256>& Gpt2ByteOrder() {
  return kNameTables.order;
}

void AppendByteNames(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    const char32_t name = kNameTables.names[static_cast<uint8_t>(byte)];
    if (name < 0x80) {
      out += static_cast<char>(name);
    } else {
      AppendUtf8(name, out);
    }
  }
}

std::string ByteNames(std::string_view bytes) {
  std::string names;
  AppendByteNames(bytes, names);
  return names;
}

bool AppendNamedBytes(std::string_view names, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + names.size());
  char* out = bytes.data() + before;
  bool good = true;
  for (size_t i = 0; i < names.size() && good;) {
    // All names are one byte of UTF-8 or two, the first of two being C2 to C5.
    const uint32_t first = static_cast<uint8_t>(names[i++]);
    uint32_t name = first;
    if (first >= 0x80) {
      const uint32_t second = i < names.size() ? static_cast<uint8_t>(names[i++]) : 0;
      good = first >= 0xC2 && first <= 0xC5 && (second & 0xC0) == 0x80;
      name = (first & 0x1F) << 6 | (second & 0x3F);
    }
    good = good && name < kNames && kNameTables.bytes[name] >= 0;
    if (good) *out++ = static_cast<char>(kNameTables.bytes[name]);
  }
  bytes.resize(good ? static_cast<size_t>(out - bytes.data()) : before);
  return good;
}

}  // namespace folio
