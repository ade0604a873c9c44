#include "folio/eval/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/infer/token_probabilities.h"
#include "folio/model/layers/head.h"
#include "folio/term/signals.h"
#include "folio/text/unicode.h"

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

namespace {

// Python's str.isspace: White_Space, and four separators of ASCII.
bool IsPythonSpace(char32_t code) {
  return (code >= 0x1C && code <= 0x1F) || ClassOf(code) == CharClass::kSpace;
}

}  // namespace

void WordCounter::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t end = CompleteUtf8Prefix(held_);
  for (size_t at = 0; at < end;) {
    const Utf8Char c = DecodeUtf8(held_, at);
    const bool space = IsPythonSpace(c.code);
    runs_ += space && !in_space_;
    in_space_ = space;
    at += c.length;
  }
  held_.erase(0, end);
}

int64_t WordCounter::Finish() {
  const int64_t words = runs_ + 1;
  *this = {};
  return words;
}

namespace {

// Returns true where a row of a product depends on that row alone. oneDNN's products without
// AVX-512 round by the number of rows.
bool RowsAreApart(const Backend& backend) {
  const std::string unit = backend.ProductUnit(Dtype::kF32);
  return unit != "AVX2" && unit != "SSE4";
}

template <class Number>
void PutNumbers(std::span<const Number> numbers, std::string& text) {
  text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

template <class Number>
void TakeNumbers(std::string_view& text, std::span<Number> numbers) {
  FOLIO_CHECK(numbers.size_bytes() <= text.size(), "ranks that measure different things");
  std::copy_n(text.data(), numbers.size_bytes(), reinterpret_cast<char*>(numbers.data()));
  text.remove_prefix(numbers.size_bytes());
}

// Appends to `text` the parts of a window that a rank needs to run it.
void PutWindow(const TextWindow& window, std::string& text) {
  const int64_t sizes[] = {std::ssize(window.ids), std::ssize(window.targets), window.first};
  PutNumbers<int64_t>(sizes, text);
  PutNumbers<int32_t>(window.ids, text);
  PutNumbers<int32_t>(window.targets, text);
}

TextWindow TakeWindow(std::string_view& text) {
  int64_t sizes[3];
  TakeNumbers<int64_t>(text, sizes);
  TextWindow window;
  window.first = sizes[2];
  window.ids.resize(static_cast<size_t>(sizes[0]));
  window.targets.resize(static_cast<size_t>(sizes[1]));
  TakeNumbers<int32_t>(text, window.ids);
  TakeNumbers<int32_t>(text, window.targets);
  return window;
}

// This number stands for each number of a prediction whose logits are not finite, until the first
// rank has heard of it.
constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

void RequireFinite(const TextWindow& window, std::span<const double> numbers, size_t each) {
  const auto found =
      std::ranges::find_if(numbers, [](double number) { return !std::isfinite(number); });
  if (found == numbers.end()) return;
  const int64_t target = (found - numbers.begin()) / static_cast<int64_t>(each);
  throw LogitsNotFinite(fmt::format("those that token {} of document {} is to be predicted by",
                                    window.begin + target, window.document));
}

}  // namespace

Predictor::Predictor(std::vector<const OpenedModel*> models, int64_t positions, size_t numbers,
                     Measure measure, Group* group)
    : models_(std::move(models)),
      positions_(positions),
      numbers_(numbers),
      measure_(std::move(measure)),
      workers_(group),
      limit_(std::numeric_limits<int64_t>::max()),
      passes_(models_.size()) {
  FOLIO_CHECK(!models_.empty(), "no model to measure");
  const int64_t V = models_[0]->weights->config().vocab_size;
  for (const OpenedModel* model : models_) {
    const GptConfig& config = model->weights->config();
    FOLIO_CHECK(config.vocab_size == V, "models of different vocabularies");
    if (!config.causal) {
      throw InputError("the model attends both ways and predicts nothing",
                       "its tokens see those behind them (model.causal = false)");
    }
    limit_ = std::min(limit_, config.n_positions);
    apart_ = apart_ && RowsAreApart(*model->backend);
    logits_.push_back(plan_.Add("logits", Dtype::kF32, {LossChunkRows(limit_, V), V}));
  }
  plan_.Place();
  arena_ = Arena(plan_);
}

// A function of the window alone, so that its numbers are too.
int64_t Predictor::Padded(int64_t tokens) const {
  constexpr int64_t kStep = 64;
  return std::min(limit_, CeilDiv(tokens, kStep) * kStep);
}

// Returns the indices of the windows of each rank: the longest windows are given out first, each to
// the rank with the fewest tokens.
std::vector<std::vector<size_t>> Predictor::Divide(std::span<const TextWindow> windows) const {
  std::vector<size_t> order(windows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t w) { return Padded(std::ssize(windows[w].ids)); };
  std::ranges::stable_sort(order, std::greater(), length);
  std::vector<std::vector<size_t>> of_ranks(static_cast<size_t>(workers_.ranks()));
  std::vector<int64_t> tokens(of_ranks.size());
  for (const size_t w : order) {
    const auto least = static_cast<size_t>(std::ranges::min_element(tokens) - tokens.begin());
    of_ranks[least].push_back(w);
    tokens[least] += length(w);
  }
  return of_ranks;
}

std::vector<double> Predictor::Run(std::span<const TextWindow> windows) {
  std::vector<size_t> begins = {0};
  for (const TextWindow& window : windows) {
    begins.push_back(begins.back() + window.targets.size() * numbers_);
  }
  std::vector<double> all(begins.back());
  const auto numbers_of = [&](size_t w) {
    return std::span(all).subspan(begins[w], begins[w + 1] - begins[w]);
  };
  const std::vector<std::vector<size_t>> of_ranks = Divide(windows);
  std::vector<std::string> shares(of_ranks.size());
  for (size_t r = 1; r < of_ranks.size(); ++r) {
    for (const size_t w : of_ranks[r]) PutWindow(windows[w], shares[r]);
  }
  workers_.Scatter(std::move(shares));
  std::vector<Item> mine;
  for (const size_t w : of_ranks[0]) mine.push_back({&windows[w], numbers_of(w)});
  RunHere(mine);
  const std::vector<std::string> answers = workers_.Gather();
  for (size_t r = 1; r < of_ranks.size(); ++r) {
    std::string_view answer = answers[r];
    for (const size_t w : of_ranks[r]) TakeNumbers<double>(answer, numbers_of(w));
  }
  for (size_t w = 0; w < windows.size(); ++w) {
    RequireFinite(windows[w], numbers_of(w), numbers_);
  }
  return all;
}

void Predictor::Serve() {
  workers_.Serve([&](const std::string& text) {
    std::vector<TextWindow> windows;
    size_t count = 0;
    for (std::string_view rest = text; !rest.empty();) {
      windows.push_back(TakeWindow(rest));
      count += windows.back().targets.size() * numbers_;
    }
    std::vector<double> all(count);
    std::span<double> rest = all;
    std::vector<Item> items;
    for (const TextWindow& window : windows) {
      items.push_back({&window, rest.first(window.targets.size() * numbers_)});
      rest = rest.subspan(items.back().numbers.size());
    }
    RunHere(items);
    std::string answer;
    PutNumbers<double>(all, answer);
    return answer;
  });
}

void Predictor::RunHere(std::span<const Item> items) {
  std::map<int64_t, std::vector<Item>> by_length;
  for (const Item& item : items) by_length[Padded(std::ssize(item.window->ids))].push_back(item);
  for (const auto& [T, alike] : by_length) {
    const auto most = static_cast<size_t>(apart_ ? std::max<int64_t>(positions_ / T, 1) : 1);
    for (size_t begin = 0; begin < alike.size(); begin += most) {
      if (first()) ThrowIfStopRequested();  // whom the others follow
      RunTogether(std::span(alike).subspan(begin, std::min(most, alike.size() - begin)), T);
    }
  }
}

void Predictor::RunTogether(std::span<const Item> items, int64_t T) {
  const int64_t B = std::ssize(items);
  std::vector<int32_t> ids(static_cast<size_t>(B * T));  // what follows a window is not looked at
  for (size_t b = 0; b < items.size(); ++b) {
    std::ranges::copy(items[b].window->ids, ids.begin() + static_cast<int64_t>(b) * T);
  }
  for (size_t m = 0; m < models_.size(); ++m) {
    const GptWeights& weights = *models_[m]->weights;
    if (!passes_[m] || passes_[m]->B() != B || passes_[m]->T() != T) {
      passes_[m].reset();
      passes_[m] = std::make_unique<GptPass>(*models_[m]->backend, weights.config(), B, T,
                                             PassKind::kForward);
    }
    passes_[m]->Forward(weights.params(), ids);
  }
  const Tensor first = arena_.Get(plan_, logits_[0]);
  const int64_t V = first.dim(1), chunk = arena_.Get(plan_, logits_.back()).dim(0);
  for (size_t b = 0; b < items.size(); ++b) {
    const TextWindow& window = *items[b].window;
    const int64_t row = static_cast<int64_t>(b) * T + window.first;
    const int64_t count = std::ssize(window.targets);
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t rows = std::min(chunk, count - begin);
      for (size_t m = 0; m < models_.size(); ++m) {
        passes_[m]->Logits(models_[m]->weights->params(), row + begin, row + begin + rows,
                           arena_.Get(plan_, logits_[m]).Slice(0, rows));
      }
      ParallelFor(rows, [&](int64_t i, int) {
        std::vector<std::span<const float>> logits(models_.size());
        for (size_t m = 0; m < models_.size(); ++m) {
          logits[m] = {arena_.Get(plan_, logits_[m]).data<float>() + i * V, static_cast<size_t>(V)};
        }
        const auto target = static_cast<size_t>(begin + i);
        const auto numbers = items[b].numbers.subspan(target * numbers_, numbers_);
        if (std::ranges::all_of(logits, AreFinite)) {
          measure_(logits, window.targets[target], numbers);
        } else {
          std::ranges::fill(numbers, kNotFinite);
        }
      });
    }
  }
}

}  // namespace folio
