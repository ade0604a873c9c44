#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/json.h"
#include "folio/serve/http.h"

namespace folio {

// A file of the page, in the program.
struct PageFile {
  std::string_view path;  // "/app.js"
  std::string_view type;
  std::string_view tag;   // the hash of its bytes
  std::string_view gzip;  // the file, compressed
};

// All of them; none in a program without its page (FOLIO_WEB).
std::span<const PageFile> PageFiles();
// The one that is at an address, "/" being that of /index.html; null if there is none.
const PageFile* FindPageFile(std::string_view path);

// Answers with the file as it is, where the client takes gzip, else unpacked.
HttpReply AnswerPageFile(const PageFile& file, const HttpRequest& request);

// A reply that clients may keep as long as `tag` stays: 304 without a body where the request has
// it.
HttpReply Tagged(HttpReply reply, const std::string& tag, const HttpRequest& request);

// Returns true where a request's Accept-Encoding takes gzip.
bool AcceptsGzip(std::string_view accepted);

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
