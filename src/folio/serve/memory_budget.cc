#include "folio/serve/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/serve/api_error.h"

namespace folio {

int64_t MemoryBudget::DefaultBytes() {
  constexpr uint64_t kLeast = uint64_t{64} << 20, kMost = uint64_t{1} << 30;
  const uint64_t free = ThisMachinesMemory().available;
  return static_cast<int64_t>(free == 0 ? kMost : std::clamp(free / 8, kLeast, kMost));
}

void MemoryBudget::Share::Resize(int64_t bytes) {
  const int64_t more = bytes - bytes_;
  if (more > 0 && budget_ != nullptr) {
    if (bytes > budget_->bytes_) {
      throw ApiError(413, fmt::format("this request needs up to {} of memory, and all requests "
                                      "together have {}",
                                      HumanBytes(static_cast<double>(bytes)),
                                      HumanBytes(static_cast<double>(budget_->bytes_))));
    }
    if (budget_->used_.fetch_add(more) + more > budget_->bytes_) {
      budget_->used_ -= more;
      throw ApiError(503, "other requests have the memory that this one needs; try again later");
    }
  } else if (budget_ != nullptr) {
    budget_->used_ += more;
  }
  bytes_ = bytes;
}

MemoryBudget::Share::~Share() {
  if (budget_ != nullptr) budget_->used_ -= bytes_;
}

int64_t JsonMemory(std::string_view text) {
  // Where a vector grows, its old and its new places are there: three for each value.
  constexpr int64_t kOfValue = 3 * sizeof(Json);
  // The members of an object grow likewise, and their keys are in a set while they are read.
  constexpr int64_t kOfMember = 3 * (sizeof(Json::Member) - sizeof(Json)) + 96;
  std::array<int64_t, 256> cost{};
  cost[','] = cost['['] = cost['{'] = kOfValue;
  cost[':'] = kOfMember;
  int64_t bytes = kOfValue + 2 * static_cast<int64_t>(text.size());
  for (const char c : text) bytes += cost[static_cast<unsigned char>(c)];
  return bytes;
}

}  // namespace folio
