#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/serve/http.h"
#include "folio/serve/memory_budget.h"

namespace folio {

struct ServedModel;
class ServiceMetrics;

// AnswerLimits bound what one request may ask for, and all of them together.
struct AnswerLimits {
  double seconds = 600;             // for an answer
  int64_t prompts = 64;             // of one request
  size_t text_bytes = 1 << 20;      // of the texts of one field, and of what token ids become
  size_t values = 1 << 20;          // of JSON, in one request
  int64_t probabilities = 1 << 18;  // of tokens, told in one answer
  // All requests share this budget; a service that is not given one makes one of
  // MemoryBudget::DefaultBytes().
  std::shared_ptr<MemoryBudget> memory = {};
};

// The fields of a request: of its body, a JSON object, or of the query of its address, "?q=7&l=5".
// Each is checked as it is read: a wrong type or a number out of its range is a 400 that names the
// field (ApiError). Null in a body and nothing in a query is a field that is not there, and fields
// that nobody asks for are left alone, as OpenAI's clients expect. As long as it is there it has a
// share of the memory of all requests: of what its values take, and of what is made of its texts
// (tokens, copies, an answer that says them).
class RequestFields {
 public:
  // Reads the body of a POST, else the query. `request` must outlive it. Throws an ApiError if the
  // body is no JSON object, or one of more values than the limits let it have, or if the texts of a
  // field are longer than they let it be, or for want of memory.
  RequestFields(const HttpRequest& request, const AnswerLimits& limits);

  // Null if it is not there.
  const Json* Find(std::string_view key) const;
  bool Flag(std::string_view key, bool otherwise = false) const;
  std::string Text(std::string_view key, const std::string& otherwise = {}) const;
  double Number(std::string_view key, double otherwise, double low, double high) const;
  std::optional<double> NumberIfAny(std::string_view key) const;  // a finite one
  int64_t Integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const;
  std::optional<int64_t> IntegerIfAny(std::string_view key, int64_t low, int64_t high) const;
  // Returns an integer that has to be there.
  int64_t Required(std::string_view key, int64_t low, int64_t high) const;
  // "3,7" of a query: at most `most`, each once.
  std::vector<int64_t> Integers(std::string_view key, int64_t low, int64_t high, size_t most) const;

 private:
  double NumberOf(const Json& field) const;  // NaN where it is none

  const HttpRequest* query_ = nullptr;  // whose parameters become fields when they are looked for
  MemoryBudget::Share memory_;          // of all that is made of the body's values and texts
  mutable Json object_ = Json::object();
};

// A Call is a request on its way through its route.
struct Call {
  const HttpRequest& request;
  const RequestFields& fields;
  const std::vector<std::string>& names;  // of the address, where its route has a "*"
  ServedModel* of = nullptr;              // the model, of a route that needs one
  const AnswerLimits& limits;
  ServiceMetrics& metrics;

  ServedModel& model() const { return *of; }
};

// Throws the 400 of a field that is not as it should be.
[[noreturn]] void ThrowBadField(std::string_view key, const std::string& expected);

// Throws the 400 of a field whose texts are longer than the limits let them be.
void RequireTextBytes(std::string_view key, size_t bytes, const AnswerLimits& limits);

// The whole of `text` as an integer of this range. Throws the 400 that names `what`.
int64_t IntegerIn(std::string_view text, std::string_view what, int64_t low, int64_t high);

}  // namespace folio
