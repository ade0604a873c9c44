#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/corpus/pieces.h"

namespace folio {

// Sizes that keep memory bounded: a thread holds one piece, and there are two windows of results.
// Nothing that is written depends on them.
struct WindowSizes {
  // For so many threads.
  explicit WindowSizes(int threads)
      : piece_bytes(std::clamp<int64_t>(kBytes / (8 * threads), 1 << 16, 1 << 19)),
        window_bytes(std::max(kBytes, 4 * threads * piece_bytes)) {}

  static constexpr int64_t kBytes = int64_t{1} << 24;
  static constexpr size_t kMaxPieces = 512;  // where pieces are small files

  int64_t piece_bytes;
  int64_t window_bytes;
};

// Some consecutive pieces and what became of each.
template <class Result>
class PieceWindow {
 public:
  void Fill(PieceCutter& cutter, const WindowSizes& sizes) {
    pieces_.clear();
    int64_t bytes = 0;
    while (pieces_.size() < WindowSizes::kMaxPieces && bytes < sizes.window_bytes) {
      const std::optional<PreparePiece> piece = cutter.Next();
      if (!piece) break;
      pieces_.push_back(*piece);
      bytes += piece->end - piece->begin.offset;
    }
    end_ = cutter.place();
    if (results_.size() < pieces_.size()) results_.resize(pieces_.size());
    failures_.assign(pieces_.size(), nullptr);
  }
  void Clear() { pieces_.clear(); }

  size_t size() const { return pieces_.size(); }
  const PreparePiece& piece(size_t i) const { return pieces_[i]; }
  Result& result(size_t i) { return results_[i]; }
  std::exception_ptr& failure(size_t i) { return failures_[i]; }
  // The place behind its pieces.
  const PreparePlace& end() const { return end_; }

 private:
  std::vector<PreparePiece> pieces_;
  std::vector<Result> results_;
  std::vector<std::exception_ptr> failures_;
  PreparePlace end_;
};

// Deals with all pieces: work(piece, result, thread) on all threads; take(piece, result) in order,
// beside the work on the pieces after it; then, on the calling thread, done(place) with the place
// up to which everything was taken. Each may throw; of several pieces that fail the first one's
// exception leaves.
template <class Result, class Work, class Take, class Done>
void ForPieces(PieceCutter& cutter, const WindowSizes& sizes, Work&& work, Take&& take,
               Done&& done) {
  PieceWindow<Result> now, before;
  for (;;) {
    now.Fill(cutter, sizes);
    if (now.size() + before.size() == 0) return;
    std::exception_ptr taking;
    ParallelFor(1 + static_cast<int64_t>(now.size()), [&](int64_t task, int thread) {
      const size_t i = static_cast<size_t>(task) - 1;
      try {
        if (task > 0) {
          work(now.piece(i), now.result(i), thread);
        } else {
          for (size_t k = 0; k < before.size(); ++k) take(before.piece(k), before.result(k));
        }
      } catch (...) {
        (task > 0 ? now.failure(i) : taking) = std::current_exception();
      }
    });
    if (taking) std::rethrow_exception(taking);
    if (before.size() > 0) done(before.end());
    for (size_t i = 0; i < now.size(); ++i) {
      if (now.failure(i)) std::rethrow_exception(now.failure(i));
    }
    std::swap(now, before);
  }
}

}  // namespace folio
