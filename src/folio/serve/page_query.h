#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/serve/http.h"

namespace folio {

// The parameters of an address, "?q=7&l=5". Each is checked as it is read: what is no number of its
// range is a 400 that names it (ApiError). An empty one is one that is not there.
class PageQuery {
 public:
  // `request` must outlive it.
  explicit PageQuery(const HttpRequest& request) : request_(request) {}

  std::string Text(const std::string& key) const { return request_.parameter(key); }
  std::optional<int64_t> IntegerIfAny(const std::string& key, int64_t low, int64_t high) const;
  int64_t Integer(const std::string& key, int64_t otherwise, int64_t low, int64_t high) const;
  // Returns an integer that has to be there.
  int64_t Required(const std::string& key, int64_t low, int64_t high) const;
  std::optional<double> NumberIfAny(const std::string& key) const;
  // "3,7": at most `most`, each once.
  std::vector<int64_t> Integers(const std::string& key, int64_t low, int64_t high,
                                size_t most) const;

 private:
  const HttpRequest& request_;
};

// The whole of `text` as an integer of this range. Throws the 400 that names `what`.
int64_t IntegerIn(std::string_view text, const std::string& what, int64_t low, int64_t high);

}  // namespace folio
