#include "folio/eval/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {

WindowShape ChooseWindows(int64_t context, int64_t stride, int64_t n_positions) {
  if (context > n_positions) {
    throw UsageError(fmt::format("--context {}: longer than the model's context", context),
                     fmt::format("it reads {} tokens at once (n_positions)", n_positions),
                     "leave --context out, or give fewer");
  }
  if (context == 0) context = n_positions;
  if (stride > context) {
    throw UsageError(
        fmt::format("--stride {}: longer than a window", stride),
        fmt::format("a window has {} tokens, and those between would be left out", context),
        fmt::format("give 1 to {}", context));
  }
  return {.context = context, .stride = stride == 0 ? std::max<int64_t>(context / 2, 1) : stride};
}

WindowCutter::WindowCutter(const WindowShape& shape, OnWindow on_window)
    : shape_(shape), on_window_(std::move(on_window)) {
  FOLIO_CHECK(1 <= shape.stride && shape.stride <= shape.context, "windows that leave tokens out");
}

void WindowCutter::Emit(size_t ids, size_t targets_end) {
  const auto at = static_cast<std::ptrdiff_t>(next_ - base_);
  TextWindow window{
      .ids = {held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(ids)},
      .first = at - 1,
      .targets = {held_.begin() + at, held_.begin() + static_cast<std::ptrdiff_t>(targets_end)},
      .begin = next_};
  next_ = base_ + static_cast<int64_t>(targets_end);
  on_window_(std::move(window));
}

void WindowCutter::Add(std::span<const int32_t> ids) {
  const auto context = static_cast<size_t>(shape_.context);
  while (!ids.empty()) {
    const size_t taken = std::min(ids.size(), context + 1 - held_.size());
    held_.insert(held_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(taken));
    ids = ids.subspan(taken);
    if (held_.size() <= context) return;
    Emit(context, context + 1);
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(shape_.stride));
    base_ += shape_.stride;
  }
}

void WindowCutter::Finish() {
  if (base_ + std::ssize(held_) > next_) Emit(held_.size(), held_.size());
  held_.clear();
  base_ = 0;
  next_ = 1;
}

std::vector<TextWindow> CutWindows(std::span<const int32_t> ids, const WindowShape& shape) {
  std::vector<TextWindow> windows;
  WindowCutter cutter(shape, [&](TextWindow window) { windows.push_back(std::move(window)); });
  cutter.Add(ids);
  cutter.Finish();
  return windows;
}

}  // namespace folio
