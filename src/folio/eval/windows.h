#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace folio {

// A stretch of a text that a model reads at once, and the tokens that it is asked for there.
struct TextWindow {
  std::vector<int32_t> ids;      // what is read, at most the context
  int64_t first = 0;             // the row whose prediction is the first that counts
  std::vector<int32_t> targets;  // what the rows from `first` on should have predicted
  int64_t begin = 0;             // place of the first target in its text, in tokens
  // `text` and `document` are the indices of the text and, over all texts, of the document; `byte`
  // counts the bytes of the document before the first target.
  size_t text = 0;
  int64_t document = 0;
  int64_t byte = 0;
};

// WindowShape says how a text that is longer than a model's context is cut.
struct WindowShape {
  int64_t context = 0;  // tokens of a window
  int64_t stride = 0;   // from one window to the next; 1 to context
};

// The shape for a model that reads `n_positions` tokens; 0 stands for its whole context, and for a
// stride of half of it. Throws a kUsage Error for what cannot be.
WindowShape ChooseWindows(int64_t context, int64_t stride, int64_t n_positions);

// Cuts a text that comes in pieces into windows of `context` tokens that begin every `stride`
// tokens. Every token but the first is a target exactly once, in the first window that has it: the
// first window predicts all of its own, each later one the last `stride`, so that behind the first
// window a target has at least context - stride + 1 tokens before it. The last window is as short
// as what is left makes it. Holds little more than a window.
class WindowCutter {
 public:
  using OnWindow = std::function<void(TextWindow window)>;

  // REQUIRES: 1 <= stride <= context.
  WindowCutter(const WindowShape& shape, OnWindow on_window);

  void Add(std::span<const int32_t> ids);
  // The rest; the cutter can then begin another text.
  void Finish();

 private:
  void Emit(size_t ids, size_t targets_end);

  WindowShape shape_;
  OnWindow on_window_;
  std::vector<int32_t> held_;  // from the beginning of the next window on
  int64_t base_ = 0;           // where that is in the text
  int64_t next_ = 1;           // the next target, in the text
};

// All windows of a text.
std::vector<TextWindow> CutWindows(std::span<const int32_t> ids, const WindowShape& shape);

}  // namespace folio
