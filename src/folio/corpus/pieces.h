#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/text_stream.h"
#include "folio/data/token_file.h"
#include "folio/ranks/group.h"
#include "folio/ranks/join.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A place up to which the sources have been processed. Places are ordered by their members.
struct PreparePlace {
  size_t source = 0;
  int64_t offset = 0;  // in bytes, below the source's length unless that is 0
  size_t part = 0;     // the number of splits before it: odd parts are held out

  bool val() const { return part % 2 != 0; }
};

// The place where one part of the text ends and the next begins: byte `offset` of a source, or, if
// `inside` is not 0, behind that many bytes of the document in the line that begins there. Parts
// are alternately training text and held-out text.
struct PrepareSplit {
  size_t source = 0;
  int64_t offset = 0;
  int64_t line_end = 0;
  int64_t inside = 0;
};

// Consecutive bytes of a source that can be processed separately: whole JSON lines, or a run of
// text. A document that is cut by splits has a piece for each part.
struct PreparePiece {
  PreparePlace begin;
  int64_t end = 0;
  int64_t text_begin = 0;  // the part of the line's document that the piece has: from here
  int64_t text_end = -1;   // up to here; -1: the end

  // Returns true if the piece is a part of the document in one line.
  bool is_part() const { return text_begin > 0 || text_end >= 0; }
  // The approximate number of bytes of text.
  int64_t text_bytes() const {
    return (text_end >= 0 ? text_end : end - begin.offset) - text_begin;
  }
};

// A document, or a part of one.
struct PrepareDocument {
  std::string_view text;
  int64_t offset = 0;            // where its bytes, or its line, begin in the source
  int64_t end = 0;               // where they end
  bool begins = false;           // false: the document began in an earlier piece
  std::string_view before = {};  // the beginning of the line's document, in earlier pieces
};

// Calls f for each document, or part of one, in a piece whose bytes are `bytes`; skips blank lines.
// Throws a kInput Error that names the line if it is no JSON object with the text.
void ForDocuments(const PrepareSource& source, const PreparePiece& piece, std::string_view bytes,
                  const std::function<void(const PrepareDocument&)>& f);

// The byte where character `index` begins, counted like CountCharacters; text.size() if there is
// none.
size_t FindCharacter(std::string_view text, int64_t index);

// Says where text, other than JSON lines, may be cut into pieces.
class CutRule {
 public:
  // Allows cuts before any byte that begins a character.
  CutRule() = default;
  // Allows cuts where the ids of the parts are those of the whole, and, with `specials`, not inside
  // the text of a special token. The tokenizer must outlive the rule.
  CutRule(const Tokenizer& tokenizer, bool specials);

  // The first such place in [at, view.size()), or view.size(). It depends only on the text within
  // context() bytes of it.
  size_t Find(std::string_view view, size_t at) const;
  size_t context() const { return context_; }

 private:
  bool InsideSpecial(std::string_view view, size_t at) const;

  const Tokenizer* tokenizer_ = nullptr;
  std::span<const SpecialToken> specials_;
  size_t context_ = 0;
};

// Cuts sources into pieces of about equal length, and reads only near the cuts. A piece is longer
// where the text cannot be cut. An empty source without JSON lines is an empty piece.
class PieceCutter {
 public:
  // All arguments must outlive it. The splits are in order.
  PieceCutter(std::span<const PrepareSource> sources, const CutRule& rule, int64_t piece_bytes,
              std::span<const PrepareSplit> splits, PreparePlace begin = {},
              int64_t longest_line = kLongestDocument);

  // Throws a kInput Error for a line of JSON that is longer than `longest_line`.
  std::optional<PreparePiece> Next();
  // The place where the next piece begins.
  const PreparePlace& place() const { return at_; }

 private:
  const PrepareSplit* InThisLine(size_t split) const;
  void PassSplits();
  PreparePiece PartOfLine(const PrepareSplit* begin, const PrepareSplit* end);
  int64_t FindEnd(const PrepareSource& source, int64_t limit);
  int64_t FindLineEnd(const PrepareSource& source, int64_t look, int64_t limit);
  int64_t FindCut(const PrepareSource& source, int64_t look, int64_t limit);
  void MoveTo(int64_t offset);

  std::span<const PrepareSource> sources_;
  const CutRule& rule_;
  int64_t piece_bytes_;
  int64_t longest_line_;
  std::span<const PrepareSplit> splits_;
  PreparePlace at_;
  std::string view_;
};

// The units in which the split is measured.
enum class PrepareUnit { kCharacter, kByte };

int64_t CountUnits(std::string_view text, PrepareUnit unit);

// The counts of one piece.
struct TextCounts {
  int64_t units = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;
  std::optional<PreparePlace> first = {};  // the place of the first document
  std::vector<std::string> texts = {};     // all texts, if they are collected
};

// Counts pieces; may be used by several threads, each with its number.
class TextCounter {
 public:
  // The sources must outlive it.
  TextCounter(std::span<const PrepareSource> sources, PrepareUnit unit, bool collect);

  // Replaces `counts`. Throws a kInput Error like ForDocuments.
  void Count(const PreparePiece& piece, TextCounts& counts, int thread);

 private:
  std::span<const PrepareSource> sources_;
  PrepareUnit unit_;
  bool collect_;
  std::vector<std::string> bytes_;  // of each thread
};

// Turns pieces into tokens; may be used by several threads, each with its number. Besides its
// result a thread holds one line and its document, and at most about kIdsHeld ids, unless the
// tokenizer encodes texts as a whole.
class PieceEncoder {
 public:
  static constexpr size_t kIdsHeld = size_t{1} << 20;

  // `first` is the place of the first document, before which there is no end-of-text. All arguments
  // must outlive it.
  PieceEncoder(const Tokenizer& tokenizer, std::span<const PrepareSource> sources,
               const PreparePlace& first, const SpecialRule& rule, TokenWidth width);

  // Replaces `out` by the tokens of the piece in the form of a file, with an end-of-text before
  // each document but the first. Throws a kInput Error that names file, line and column of text
  // without a token, and of a special token that is not allowed.
  void Encode(const PreparePiece& piece, std::vector<std::byte>& out, int thread);

 private:
  // The document in a line that is cut by splits.
  struct LineDocument {
    size_t source = 0;
    int64_t offset = 0;  // of the line
    std::string text = {};
  };
  struct Scratch {
    std::string bytes;
    std::vector<int32_t> ids;
    std::shared_ptr<const LineDocument> line;  // if the thread's last piece is a part of one
  };
  // The tokens of the current piece: ids that Flush appends to `out`.
  struct Tokens {
    std::vector<int32_t>& ids;
    std::vector<std::byte>& out;
  };

  std::shared_ptr<const LineDocument> ReadLine(const PreparePiece& piece, Scratch& scratch);
  void EncodeDocument(const PrepareSource& source, const PreparePiece& piece,
                      const PrepareDocument& document, Tokens& tokens) const;
  void EncodeText(const PrepareSource& source, const PrepareDocument& document,
                  Tokens& tokens) const;
  void EncodeOrdinary(const PrepareSource& source, const PrepareDocument& document, size_t begin,
                      size_t end, Tokens& tokens) const;
  void Flush(Tokens& tokens) const;

  const Tokenizer& tokenizer_;
  std::span<const PrepareSource> sources_;
  PreparePlace first_;
  SpecialFinder specials_;
  TokenWidth width_;
  const bool stops_ = RankByEnvironment() == 0;  // on signals: the first rank stops the others
  std::vector<Scratch> scratch_;                 // of each thread
  std::mutex lines_;                             // guards the `line`s in scratch_
};

// The work that a rank does on pieces.
enum class PieceWork : char { kCountCharacters = 'c', kCountBytes = 'b', kEncode = 'e' };

// The ranks that share the pieces of a data set, for the first rank, which cuts the pieces and
// takes their results in order. The others read the same files.
class PieceRanks {
 public:
  // `workers` must outlive it; null for one rank alone.
  explicit PieceRanks(Workers* workers) : workers_(workers) {}

  // Lets the others open the sources. If one of them reads other data, none of them is used, and
  // the result says which rank and file; else "".
  std::string Open(std::span<const PrepareSource> sources, const TextOptions& options);
  // Prepares the others for kEncode, with the arguments of PieceEncoder; the tokenizer with this
  // hash is saved in `dir`. Returns the same as Open.
  std::string OpenTokenizer(const std::filesystem::path& dir, const std::string& hash,
                            const PreparePlace& first, const std::string& special,
                            TokenWidth width);

  // The number of ranks that share the pieces.
  int size() const { return workers_ == nullptr ? 1 : workers_->ranks(); }
  // Distributes pieces to the other ranks: by_rank[r] are rank r's; by_rank[0] is ignored.
  void Scatter(PieceWork work, const std::vector<std::span<const PreparePiece>>& by_rank);
  // Calls each(answer) with the result of each of these pieces, in order. Throws the error of the
  // first that failed.
  void Gather(const std::function<void(std::string_view answer)>& each);

 private:
  std::string Tell(const std::string& message);

  Workers* workers_;
};

// On the other ranks: works for the first rank until its Workers object is destroyed.
void PrepareAsWorker(Group& group);

// These read the result of a piece from another rank's answer.
void FromAnswer(std::string_view answer, std::vector<std::byte>& tokens);
void FromAnswer(std::string_view answer, TextCounts& counts);

// Sizes that bound the memory: each thread holds one piece, and there are two windows of results.
// They do not affect the data set.
struct WindowSizes {
  // Chooses the sizes for this number of threads.
  explicit WindowSizes(int threads)
      : piece_bytes(std::clamp<int64_t>(kBytes / (8 * threads), 1 << 16, 1 << 19)),
        window_bytes(std::max(kBytes, 4 * threads * piece_bytes)) {}

  static constexpr int64_t kBytes = int64_t{1} << 24;
  static constexpr size_t kMaxPieces = 512;  // reached if pieces are small files

  int64_t piece_bytes;
  int64_t window_bytes;
};

// Consecutive pieces and their results.
template <class Result>
struct PieceWindow {
  std::vector<PreparePiece> pieces;
  std::vector<std::span<const PreparePiece>> shares;  // the pieces of each rank, consecutive
  std::vector<Result> results;                        // at least as many as pieces
  std::vector<std::exception_ptr> failures;
  PreparePlace end;  // behind the last piece

  // Fills the window with about equally many bytes for each rank.
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
        bytes += piece->text_bytes();
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

// Processes all pieces: calls process(piece, result, thread) on all threads, while other ranks do
// the same by `kind`; calls take(piece, result) in order while later pieces are processed; then
// calls done(place) on the calling thread with the place up to which everything was taken. Each may
// throw; if several pieces fail, the exception of the first one is thrown.
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
