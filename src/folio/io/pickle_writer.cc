#include "folio/io/pickle_writer.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "folio/base/check.h"

namespace folio {
namespace {

template <class T>
std::string PickledBytes(T value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string PickledText(std::string_view text) {
  return "X" + PickledBytes(static_cast<uint32_t>(text.size())) + std::string(text);
}

std::string PickledNumber(double number) {
  std::string bytes = PickledBytes(number);  // the highest first
  std::ranges::reverse(bytes);
  return "G" + bytes;
}

}  // namespace

std::string Pickled(const Json& value) {
  if (value.is_null()) return "N";
  if (value.is_boolean()) return value.get<bool>() ? "\x88" : "\x89";
  if (value.is_number_integer()) return "\x8a\x08" + PickledBytes(value.get<int64_t>());
  if (value.is_number()) return PickledNumber(value.get<double>());
  if (value.is_string()) return PickledText(value.text());
  if (value.is_object()) {
    std::vector<std::pair<std::string, std::string>> items;
    for (const auto& [key, member] : value.items()) {
      items.emplace_back(PickledText(key), Pickled(member));
    }
    return PickledDict(items);
  }
  std::string list = "](";
  for (const Json& element : value) list += Pickled(element);
  return list + "e";
}

std::string PickledDict(std::span<const std::pair<std::string, std::string>> items) {
  std::string dict = "}(";
  for (const auto& [key, value] : items) dict += key + value;
  return dict + "u";
}

std::string PickledTuple(std::span<const std::string> items) {
  std::string tuple = "(";
  for (const std::string& item : items) tuple += item;
  return tuple + "t";
}

std::string PickledGlobal(std::string_view name) {
  const size_t dot = name.rfind('.');
  FOLIO_CHECK(dot != name.npos, "a global without a module");
  return "c" + std::string(name.substr(0, dot)) + "\n" + std::string(name.substr(dot + 1)) + "\n";
}

std::string PickledCall(std::string_view global, std::span<const std::string> arguments) {
  return PickledGlobal(global) + PickledTuple(arguments) + "R";
}

std::string PickledStored(std::span<const std::string> called) {
  return PickledTuple(called) + "Q";
}

std::string PickleOf(std::string_view value) {
  return "\x80\x02" + std::string(value) + ".";
}

}  // namespace folio
