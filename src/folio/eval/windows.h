#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/dist/workers.h"
#include "folio/infer/opened_model.h"
#include "folio/model/gpt.h"

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

// Words of a text that comes in pieces cut anywhere, as lm-eval counts them for word_perplexity:
// the parts between runs of white space, of which the one before a run at the beginning and the one
// behind a run at the end are empty and count too (Python's len(re.split(r"\s+", text))).
class WordCounter {
 public:
  void Add(std::string_view bytes);
  // The words of the text so far, 1 or more; the counter can then begin another text.
  int64_t Finish();

 private:
  int64_t runs_ = 0;
  bool in_space_ = false;
  std::string held_;  // the beginning of a character
};

// Runs windows through one model, or through several for comparing what they predict, on all ranks
// of a group. The result of a window depends on it alone: on neither the windows that run beside it
// nor the number of threads or ranks.
class Predictor {
 public:
  // Logits of one prediction, (V), of each of the models.
  using Rows = std::span<const std::span<const float>>;
  // A Measure keeps some numbers of a prediction whose right token is `id`, equally many of each.
  // Called from several threads.
  using Measure = std::function<void(Rows rows, int32_t id, std::span<double> numbers)>;

  // Runs as many windows at once as have about `positions` tokens, one at least, on each rank;
  // where products of matrices depend on their number of rows, one at a time. The models and
  // `group` (null for one rank alone) must outlive it; all its ranks make one with the same models
  // and the same measure. Throws a kInput Error for a model whose tokens see those behind them.
  // REQUIRES: one vocab_size.
  Predictor(std::vector<const OpenedModel*> models, int64_t positions, size_t numbers,
            Measure measure, Group* group = nullptr);

  bool first() const { return workers_.first(); }
  // Tokens that all ranks can run at once, about.
  int64_t positions() const { return positions_ * workers_.ranks(); }

  // Returns, on the first rank, the numbers of all targets, window by window. Each window has at
  // most n_positions tokens. Throws Stopped (term/signals.h) between passes if that was asked for,
  // and a kDiverged Error where logits are not finite.
  std::vector<double> Run(std::span<const TextWindow> windows);
  // Runs, on the other ranks, what the first one has for them, until that one's Predictor is gone.
  void Serve();

 private:
  // A window that this rank runs, and where its numbers go.
  struct Item {
    const TextWindow* window;
    std::span<double> numbers;
  };

  std::vector<std::vector<size_t>> Divide(std::span<const TextWindow> windows) const;
  void RunHere(std::span<const Item> items);
  void RunTogether(std::span<const Item> items, int64_t T);
  // The length that a window of so many tokens is filled up to.
  int64_t Padded(int64_t tokens) const;

  std::vector<const OpenedModel*> models_;
  int64_t positions_;  // of each rank
  size_t numbers_;     // of a target
  bool apart_ = true;  // windows may run beside each other without a change of any bit
  Measure measure_;
  Workers workers_;
  int64_t limit_;  // n_positions of the model that reads least
  std::vector<std::unique_ptr<GptPass>> passes_;
  MemoryPlan plan_;
  std::vector<MemoryPlan::Id> logits_;
  Arena arena_;
};

}  // namespace folio
