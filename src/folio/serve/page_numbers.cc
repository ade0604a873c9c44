#include "folio/serve/page_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

namespace folio {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

void PageNumbers::Append(const char* name, const char* dtype, const std::vector<int64_t>& shape,
                         std::string_view bytes) {
  const size_t begin = payload_.size();
  payload_ += bytes;
  tensors_[name] = {{"dtype", dtype},
                    {"shape", Json(shape)},
                    {"data_offsets", Json::array({begin, payload_.size()})}};
}

std::string PageNumbers::bytes() const {
  constexpr size_t kAlign = 8;
  Json metadata = Json::object(), header = Json::object();
  for (const auto& [key, value] : about_.items()) metadata[key] = value.dump();
  header["__metadata__"] = std::move(metadata);
  header.update(tensors_);
  std::string text = header.dump();
  text.resize((text.size() + kAlign - 1) / kAlign * kAlign, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + payload_;
}

uint8_t SqrtByte(float p) {
  return p > 0 ? static_cast<uint8_t>(std::lround(255 * std::sqrt(std::min(p, 1.0F)))) : 0;
}

Json ShortNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::stod(fmt::format("{:.6g}", value));
}

}  // namespace folio
