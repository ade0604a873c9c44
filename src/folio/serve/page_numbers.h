#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/json.h"
#include "folio/serve/http.h"

namespace folio {

// Numbers for the page, which reads them without parsing: a file of safetensors. What else is to be
// known of them is in its "__metadata__", each value as the text of its JSON.
class PageNumbers {
 public:
  explicit PageNumbers(Json about = Json::object()) : about_(std::move(about)) {}

  Json& about() { return about_; }
  // Appends a tensor. Those of one file have one type: uint8_t, int16_t or float.
  template <class T>
  PageNumbers& Add(const std::vector<int64_t>& shape, std::span<const T> numbers,
                   const char* name = "numbers") {
    const auto bytes = std::as_bytes(numbers);
    const char* const dtype = sizeof(T) == 1 ? "U8" : sizeof(T) == 2 ? "I16" : "F32";
    Append(name, dtype, shape, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return *this;
  }
  template <class T>
  PageNumbers& Add(const std::vector<int64_t>& shape, const std::vector<T>& numbers) {
    return Add(shape, std::span<const T>(numbers));
  }

  std::string bytes() const;
  HttpReply reply() const { return {.type = "application/octet-stream", .body = bytes()}; }

 private:
  void Append(const char* name, const char* dtype, const std::vector<int64_t>& shape,
              std::string_view bytes);

  Json about_, tensors_ = Json::object();
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
