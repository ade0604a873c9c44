#include "folio/text/encode_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"

namespace folio {
namespace {

constexpr size_t kGroup = size_t{1} << 16;  // bytes of short texts that make a task
constexpr size_t kLong = size_t{1} << 22;   // bytes from which a text is divided itself
constexpr size_t kPerText = 64;             // the cost of a text, in bytes of text

// Joins the pieces of tasks in their order, as soon as they are finished.
class InOrder {
 public:
  InOrder(size_t pieces, std::vector<int32_t>& ids) : pieces_(pieces), ids_(ids) {}

  // An empty vector, reusing memory that is no longer needed if there is any.
  std::vector<int32_t> Take() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return {};
    std::vector<int32_t> taken = std::move(spare_.back());
    spare_.pop_back();
    return taken;
  }

  // Stores the ids of piece i. One thread at a time appends, the others continue.
  void Put(size_t i, std::vector<int32_t> piece) {
    std::unique_lock lock(mutex_);
    pieces_[i].ids = std::move(piece);
    pieces_[i].ready = true;
    if (appending_) return;
    appending_ = true;
    while (next_ < pieces_.size() && pieces_[next_].ready) {
      std::vector<int32_t> ready = std::move(pieces_[next_++].ids);
      lock.unlock();
      if (ids_.capacity() - ids_.size() < ready.size()) Grow(ready.size());
      ids_.insert(ids_.end(), ready.begin(), ready.end());
      ready.clear();
      lock.lock();
      spare_.push_back(std::move(ready));
    }
    appending_ = false;
  }

 private:
  struct Piece {
    std::vector<int32_t> ids;
    bool ready = false;
  };

  // Makes room for all pieces at once, if they are like those so far. Only while appending_.
  void Grow(size_t more) {
    const size_t like_those_so_far = (ids_.size() + more) / next_ * (pieces_.size() + 1);
    ids_.reserve(std::max(ids_.size() + more, like_those_so_far + like_those_so_far / 16));
  }

  std::mutex mutex_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int32_t>> spare_;
  std::vector<int32_t>& ids_;
  size_t next_ = 0;
  bool appending_ = false;
};

// The first place, in the order of tasks, where encoding stopped.
class FirstFailure {
 public:
  static constexpr size_t kNone = std::string_view::npos;

  void Note(size_t task, size_t at) {
    const std::lock_guard lock(mutex_);
    if (task > task_) return;
    task_ = task;
    place_ = at;
  }
  size_t place() const { return place_; }  // or kNone
  size_t task() const { return task_; }

 private:
  std::mutex mutex_;
  size_t task_ = kNone;
  size_t place_ = kNone;
};

constexpr size_t kStopped = FirstFailure::kNone - 1;

// Appends the ids like EncodePrefix; returns the place without a token, or npos, or kStopped.
size_t EncodeCut(const Tokenizer& tokenizer, std::string_view text, size_t grain,
                 std::vector<int32_t>& ids, const std::function<bool(size_t)>& go_on = {}) {
  FOLIO_CHECK(grain > 0, "pieces have bytes");
  std::vector<size_t> cuts = {0};
  while (text.size() - cuts.back() > grain) {
    cuts.push_back(tokenizer.FindCut(text, cuts.back() + grain));
  }
  if (cuts.back() < text.size()) cuts.push_back(text.size());
  const size_t pieces = cuts.size() - 1;
  if (go_on && !go_on(0)) return kStopped;
  if (pieces <= 1) {
    const size_t done = tokenizer.EncodePrefix(text, ids);
    return done < text.size() ? done : FirstFailure::kNone;
  }
  InOrder in_order(pieces, ids);
  FirstFailure failure;
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<size_t> all_done = 0;
  std::atomic<bool> stopped = false;
  ParallelFor(static_cast<int64_t>(pieces), [&](int64_t task, int) {
    if (go_on && std::this_thread::get_id() == caller && !go_on(all_done)) stopped = true;
    if (stopped) return;
    const size_t i = static_cast<size_t>(task);
    const std::string_view piece = text.substr(cuts[i], cuts[i + 1] - cuts[i]);
    std::vector<int32_t> piece_ids = in_order.Take();
    const size_t done = tokenizer.EncodePrefix(piece, piece_ids);
    in_order.Put(i, std::move(piece_ids));
    all_done += piece.size();
    if (done < piece.size()) failure.Note(i, cuts[i] + done);
  });
  return stopped ? kStopped : failure.place();
}

// Texts [bounds[i], bounds[i + 1]) share task i; long ones among them are skipped.
std::vector<size_t> GroupShortTexts(std::span<const std::string_view> texts) {
  std::vector<size_t> bounds = {0};
  while (bounds.back() < texts.size()) {
    size_t end = bounds.back();
    for (size_t bytes = 0; end < texts.size() && bytes < kGroup; ++end) {
      bytes += kPerText + (texts[end].size() < kLong ? texts[end].size() : 0);
    }
    bounds.push_back(end);
  }
  return bounds;
}

}  // namespace

bool EncodeParallel(const Tokenizer& tokenizer, std::string_view text, std::string_view where,
                    std::vector<int32_t>& ids, const std::function<bool(size_t)>& go_on,
                    size_t grain) {
  const size_t failed = EncodeCut(tokenizer, text, grain, ids, go_on);
  if (failed == kStopped) return false;
  if (failed != FirstFailure::kNone) throw CannotEncode(tokenizer, text, failed, {}, where);
  return true;
}

std::vector<std::vector<int32_t>> EncodeBatch(const Tokenizer& tokenizer,
                                              std::span<const std::string_view> texts) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  FirstFailure failure;  // tasks are texts
  const std::vector<size_t> bounds = GroupShortTexts(texts);
  ParallelFor(std::ssize(bounds) - 1, [&](int64_t task, int) {
    const auto group = static_cast<size_t>(task);
    std::vector<int32_t> text_ids;
    for (size_t i = bounds[group]; i < bounds[group + 1]; ++i) {
      if (texts[i].size() >= kLong) continue;
      text_ids.clear();
      const size_t done = tokenizer.EncodePrefix(texts[i], text_ids);
      ids[i].assign(text_ids.begin(), text_ids.end());
      if (done < texts[i].size()) failure.Note(i, done);
    }
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() < kLong) continue;
    const size_t failed = EncodeCut(tokenizer, texts[i], kLong / 4, ids[i]);
    if (failed != FirstFailure::kNone) failure.Note(i, failed);
  }
  const size_t failed = failure.place();
  if (failed == FirstFailure::kNone) return ids;
  const size_t i = failure.task();
  throw CannotEncode(tokenizer, texts[i], failed, {}, fmt::format("texts[{}]", i));
}

}  // namespace folio
