#include "folio/serve/gvz.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace folio {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

template <class T>
void AppendBytes(std::span<const T> numbers, std::string& to) {
  const auto bytes = std::as_bytes(numbers);
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

GvzFrame::GvzFrame(const char* dtype, const std::vector<int64_t>& shape, const char* layout,
                   const char* code)
    : header_{{"dtype", dtype}, {"shape", Json(shape)}, {"layout", layout}, {"code", code}} {}

void GvzFrame::Append(std::span<const float> numbers) {
  AppendBytes(numbers, payload_);
}

void GvzFrame::Append(std::span<const uint8_t> numbers) {
  AppendBytes(numbers, payload_);
}

void GvzFrame::Append(std::span<const int16_t> numbers) {
  AppendBytes(numbers, payload_);
}

std::string GvzFrame::bytes() const {
  constexpr size_t kAlign = 8;
  const std::string header = header_.dump();
  const auto length = static_cast<uint32_t>(header.size());
  std::string bytes = "GVZ1";
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += header;
  bytes.resize((bytes.size() + kAlign - 1) / kAlign * kAlign);
  return bytes + payload_;
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
