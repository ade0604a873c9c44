#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/corpus/pieces.h"
#include "folio/data/token_file.h"
#include "folio/dist/group.h"

namespace folio {

// The work that a rank does on pieces.
enum class PieceWork : char { kCountCharacters = 'c', kCountBytes = 'b', kEncode = 'e' };

// The ranks that share the pieces of a data set, as the first of them sees it: who cuts the pieces,
// and takes what became of them in order. The others read the same files.
class PieceRanks {
 public:
  // `workers` must outlive it; null for one rank alone.
  explicit PieceRanks(Workers* workers) : workers_(workers) {}

  // The others open the sources; where one does not see what the first one does, none helps, and
  // the answer says who does not see what. "" if they do.
  std::string Open(std::span<const PrepareSource> sources, const TextOptions& options);
  // And get ready for kEncode, as PieceEncoder's constructor has it; the tokenizer with this hash
  // is saved in `dir`. The same answer.
  std::string OpenTokenizer(const std::filesystem::path& dir, const std::string& hash,
                            const PreparePlace& first, const std::string& special,
                            TokenWidth width);

  // The number of ranks that share the pieces.
  int size() const { return workers_ == nullptr ? 1 : workers_->ranks(); }
  // Hands the pieces of others out: of[r] are rank r's, and of[0] is not looked at.
  void Scatter(PieceWork work, const std::vector<std::span<const PreparePiece>>& of);
  // Calls each(answer) with what became of all of them, in order. Throws what the first failed
  // with.
  void Gather(const std::function<void(std::string_view answer)>& each);

 private:
  std::string Tell(const std::string& message);

  Workers* workers_;
};

// Serves the first rank on all others, until its Workers are gone.
void PrepareAsWorker(Group& group);

// FromAnswer reads the result of a piece as it travels.
void FromAnswer(std::string_view answer, std::vector<std::byte>& tokens);
void FromAnswer(std::string_view answer, TextCounts& counts);

// Sizes that keep memory bounded: a thread holds one piece, and there are two windows of results.
// Nothing that is written depends on them.
struct WindowSizes {
  // Chooses the sizes for so many threads.
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
struct PieceWindow {
  std::vector<PreparePiece> pieces;
  std::vector<std::span<const PreparePiece>> shares;  // of each rank, one after the other
  std::vector<Result> results;                        // at least as many as pieces
  std::vector<std::exception_ptr> failures;
  PreparePlace end;  // behind its pieces

  // Fills the window with about as much for each of `ranks`.
  void Fill(PieceCutter& cutter, const WindowSizes& sizes, int ranks) {
    pieces.clear();
    std::vector<size_t> ends;
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t begin = pieces.size();
      int64_t bytes = 0;
      while (pieces.size() - begin < WindowSizes::kMaxPieces && bytes < sizes.window_bytes) {
        const std::optional<PreparePiece> piece = cutter.Next();
        if (!piece) break;
        pieces.push_back(*piece);
        bytes += piece->end - piece->begin.offset;
      }
      ends.push_back(pieces.size());
    }
    shares.clear();
    for (size_t r = 0, begin = 0; r < ends.size(); begin = ends[r++]) {
      shares.push_back(std::span(pieces).subspan(begin, ends[r] - begin));
    }
    end = cutter.place();
    if (results.size() < pieces.size()) results.resize(pieces.size());
    failures.assign(pieces.size(), nullptr);
  }
};

// Deals with all pieces: process(piece, result, thread) on all threads, and on other ranks what
// `kind` says, which is the same; take(piece, result) in order, beside the processing of the pieces
// after it; then, on the calling thread, done(place) with the place up to which everything was
// taken. Each may throw; of several pieces that fail the first one's exception leaves.
template <class Result, class Process, class Take, class Done>
void ForPieces(PieceCutter& cutter, const WindowSizes& sizes, PieceRanks& ranks, PieceWork kind,
               Process&& process, Take&& take, Done&& done) {
  PieceWindow<Result> now, before;
  for (;;) {
    now.Fill(cutter, sizes, ranks.size());
    if (now.pieces.empty() && before.pieces.empty()) return;
    ranks.Scatter(kind, now.shares);
    const size_t own = now.shares[0].size();
    std::exception_ptr taking, others;
    ParallelFor(1 + static_cast<int64_t>(own), [&](int64_t task, int thread) {
      const size_t i = static_cast<size_t>(task) - 1;
      try {
        if (task > 0) {
          process(now.pieces[i], now.results[i], thread);
        } else {
          for (size_t k = 0; k < before.pieces.size(); ++k) {
            take(before.pieces[k], before.results[k]);
          }
        }
      } catch (...) {
        (task > 0 ? now.failures[i] : taking) = std::current_exception();
      }
    });
    try {
      size_t i = own;
      ranks.Gather([&](std::string_view answer) { FromAnswer(answer, now.results[i++]); });
    } catch (...) {
      others = std::current_exception();
    }
    if (taking) std::rethrow_exception(taking);
    if (!before.pieces.empty()) done(before.end);
    for (size_t i = 0; i < own; ++i) {
      if (now.failures[i]) std::rethrow_exception(now.failures[i]);
    }
    if (others) std::rethrow_exception(others);
    std::swap(now, before);
  }
}

}  // namespace folio
