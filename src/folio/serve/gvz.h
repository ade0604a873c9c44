#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/io/json.h"
#include "folio/serve/http.h"

namespace folio {

// Numbers for the page, which reads them without parsing: "GVZ1", the length of the header (u32),
// the header as JSON, zeros up to a multiple of 8 bytes, the numbers. All of it little-endian.
class GvzFrame {
 public:
  // `layout`: "full", or "tril" where row q of the square `shape` has q + 1 numbers. `code`: "lin",
  // or "sqrt" for SqrtByte's.
  GvzFrame(const char* dtype, const std::vector<int64_t>& shape, const char* layout = "full",
           const char* code = "lin");

  // The header takes what else the page is to know.
  Json& header() { return header_; }
  void Append(std::span<const float> numbers);
  void Append(std::span<const uint8_t> numbers);
  void Append(std::span<const int16_t> numbers);

  std::string bytes() const;
  HttpReply reply() const { return {.type = "application/octet-stream", .body = bytes()}; }

 private:
  Json header_;
  std::string payload_;
};

// A weight p from 0 to 1 as the byte 255 sqrt(p), rounded: small ones are told apart.
uint8_t SqrtByte(float p);

// The part of [0, n) that falls into cell `i` of `cells` equal ones: [first, second).
inline std::pair<int64_t, int64_t> CellRange(int64_t i, int64_t cells, int64_t n) {
  return {i * n / cells, (i + 1) * n / cells};
}

// A number of six significant digits; "nan", "inf" and "-inf", which JSON lacks, as texts.
Json ShortNumber(double value);

}  // namespace folio
