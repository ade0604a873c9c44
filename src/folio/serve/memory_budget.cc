#include "folio/serve/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/machine.h"
#include "folio/base/strings.h"
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

}  // namespace folio
