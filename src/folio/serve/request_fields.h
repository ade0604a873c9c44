#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/serve/answer_limits.h"

namespace folio {

// The fields of a request's JSON object. Each is checked as it is read: a wrong type or a number
// out of its range is a 400 that names the field (ApiError). Null is a field that is not there, and
// fields that nobody asks for are left alone, as OpenAI's clients expect. As long as it is there it
// has a share of the memory of all requests: of what its values take, and of what is made of its
// texts (tokens, copies, an answer that says them).
class RequestFields {
 public:
  // Throws an ApiError if `body` is no JSON object, or one of more values than the limits let it
  // have, or if the texts of a field are longer than they let it be, or for want of memory.
  RequestFields(std::string_view body, const AnswerLimits& limits);

  // Null if it is not there.
  const Json* Find(std::string_view key) const;
  bool Flag(std::string_view key, bool otherwise = false) const;
  std::string Text(std::string_view key, const std::string& otherwise = {}) const;
  double Number(std::string_view key, double otherwise, double low, double high) const;
  int64_t Integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const;
  std::optional<int64_t> IntegerIfAny(std::string_view key, int64_t low, int64_t high) const;

 private:
  MemoryBudget::Share memory_;  // of all that is made of the body's values and texts
  Json object_;
};

// Throws the 400 of a field that is not as it should be.
[[noreturn]] void ThrowBadField(std::string_view key, const std::string& expected);

// Throws the 400 of a field whose texts are longer than the limits let them be.
void RequireTextBytes(std::string_view key, size_t bytes, const AnswerLimits& limits);

}  // namespace folio
