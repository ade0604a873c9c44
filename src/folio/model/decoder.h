#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/model/config.h"
#include "folio/model/context.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

// The KV cache: keys and values of the tokens of many sequences, in pages (ops.h). A sequence takes
// page after page as it grows. Pages that were filled in one pass, as those of prompts are, stay
// known by their tokens: sequences that begin alike share them, also when who made them is gone,
// until their memory is needed. After construction only the books allocate.
//
// Layers with a window (config.h) have pages of their own, of which a sequence keeps those that its
// next tokens may attend to: they are fewer, and each stands for one of the other pages.
class KvCache {
 public:
  // `pages` is a hard limit. What nobody has written costs no memory. `sequences` is how many there
  // are at once, at most, 0 for any number: layers with windows need no more pages than they do,
  // and as many again for texts that begin alike.
  KvCache(const GptConfig& config, Dtype dtype, int64_t pages, int64_t sequences = 0);
  KvCache(const KvCache&) = delete;

  // Tokens of a page: R of ops.h, and what a prompt is read by.
  static int64_t PageTokens(const GptConfig& config) {
    return std::min<int64_t>(config.n_positions, 128);
  }
  // Pages of a sequence of so many tokens.
  static int64_t PagesOf(const GptConfig& config, int64_t tokens) {
    return CeilDiv(tokens, PageTokens(config));
  }

  int64_t PagesOf(int64_t tokens) const { return CeilDiv(tokens, R_); }

  int64_t page_tokens() const { return R_; }
  int64_t capacity() const { return P_; }  // tokens of a sequence
  int64_t pages() const { return static_cast<int64_t>(books_.size()); }
  int64_t bytes() const { return static_cast<int64_t>(plan_.arena_bytes()); }
  int64_t free_pages() const;  // that no sequence has
  // (pages,K,2,R,D) each, with fewer pages where there is a window.
  std::span<const Tensor> layers() const { return layers_; }

 private:
  friend class CachedSequence;
  friend class Decoder;

  // A page as the cache knows it.
  struct Entry {
    int64_t users = 0;              // sequences that have it
    std::vector<int32_t> ids = {};  // its tokens; empty for one that cannot be shared
    int32_t before = -1;            // the page that stands before it, if it can be shared
    int64_t children = 0;           // shared pages that stand behind it
    int64_t used = 0;               // when it was let go
    int32_t window = -1;            // the page that stands for it in layers with windows, or -1
    int64_t window_users = 0;       // sequences that need that one
    int64_t window_used = 0;        // when they had no more need of it
  };

  Entry& At(int32_t page) { return books_[static_cast<size_t>(page)]; }
  int32_t Take();  // with one for windows. REQUIRES: free_pages() > 0
  void Hold(int32_t page) { ++At(page).users; }
  void LetGo(int32_t page);
  void TakeWindow(int32_t page);
  void HoldWindow(int32_t page) { ++At(page).window_users; }
  void LetGoWindow(int32_t page);
  void FreeWindow(int32_t page);
  // Lets `same` stand for `page`, which has the same tokens and which one sequence has.
  void Replace(int32_t page, int32_t same);
  // The first page that tokens from `position` on need of layers with windows.
  int64_t FirstInWindow(int64_t position) const {
    return std::max<int64_t>(0, position + 1 - window_) / R_;
  }
  // The page with these tokens behind that one (-1: at the beginning), or -1.
  int32_t Find(int32_t before, std::span<const int32_t> ids) const;
  bool exclusive(int32_t page) { return At(page).users == 1 && At(page).ids.empty(); }

  int64_t P_, R_;
  int64_t window_ = 0;  // the widest, 0 for none
  int64_t clock_ = 0;
  MemoryPlan plan_;
  Arena arena_;
  std::vector<Tensor> layers_;
  std::vector<Entry> books_;
  std::vector<int32_t> free_, free_windows_;  // pages that are nothing, the next one last
};

// The keys and values of one sequence that grows (model/decoder.h), in pages that it gives back.
class CachedSequence {
 public:
  // `cache` must outlive it.
  explicit CachedSequence(KvCache& cache) : cache_(&cache) {
    ids_.reserve(static_cast<size_t>(cache.capacity()));
    pages_.reserve(
        static_cast<size_t>((cache.capacity() + cache.page_tokens() - 1) / cache.page_tokens()));
  }
  CachedSequence(CachedSequence&& other) noexcept;
  CachedSequence& operator=(CachedSequence&& other) noexcept;
  ~CachedSequence() { Clear(); }

  int64_t size() const { return size_; }                    // tokens
  std::span<const int32_t> tokens() const { return ids_; }  // so many
  std::span<const int32_t> pages() const { return pages_; }
  // Writes the page of layers with windows for each page, -1 where nothing needs it.
  void WindowPages(int32_t* to) const;
  // Begins with pages that the cache has of a text that begins with these tokens: size() says with
  // how many of them. REQUIRES: it is empty.
  void Recall(std::span<const int32_t> ids);
  // Forgets all but the first `size` tokens. Where layers have windows, and these have gone on by
  // more than kRollback tokens from there, it may forget more, up to all. REQUIRES: size <= size().
  void Truncate(int64_t size);
  static constexpr int64_t kRollback = LinearForward::kFewRows;
  void Clear() { Truncate(0); }

 private:
  friend class Decoder;

  // Has pages for `rows` more tokens.
  void Grow(int64_t rows);
  // Keeps the next tokens, which every layer has written, in one pass.
  void Advance(std::span<const int32_t> ids);
  // Lets others share the page behind those that can be shared, which has these tokens.
  void Share(std::span<const int32_t> ids);
  // One with the same pages.
  CachedSequence Copy() const;
  bool shares_last_page() const { return !cache_->exclusive(pages_.back()); }
  // Takes another page in place of the last, and returns it.
  int32_t RenewLastPage();
  // Lets go what tokens from size() - kRollback on do not need of layers with windows.
  void LeaveWindows();

  KvCache* cache_;
  int64_t size_ = 0;
  std::vector<int32_t> ids_ = {}, pages_ = {};
  int64_t shared_ = 0;        // of these, from the first: can be shared
  int64_t first_window_ = 0;  // of these: it and those behind are kept in layers with windows
};

struct DecoderOptions {
  Dtype dtype = Dtype::kF32;        // of the weights that are not stored: F32 or F64
  std::optional<Dtype> cache = {};  // of keys and values: that, or BF16 for F32
  int64_t pages = 0;                // of the cache; 0 for those of one sequence of P tokens
  int64_t sequences = 0;            // at once, at most, as in KvCache
};

// The tokens that a pass appends to one sequence.
struct SequencePiece {
  CachedSequence* sequence = nullptr;
  std::span<const int32_t> ids = {};  // each in [0,V)
  bool every_row = false;  // whether logits are wanted behind each token, and not the last alone
};

// Sequences that grow: keys and values of the tokens so far are kept, so that a new token costs one
// row of work. Up to kFewRows rows go through the model together, whosever they are, and each comes
// out the same, bit for bit, whatever others there are. More go a page at a time, cut at its
// borders, so that what comes of a sequence that was appended at once depends on its tokens alone,
// also where it shares pages with others. After construction a step allocates no large memory.
class Decoder {
 public:
  static constexpr int64_t kFewRows = LinearForward::kFewRows;

  // `backend` and the weights, which are whole, must outlive it. Throws a kUsage Error for a model
  // that is not causal, and a kResource Error where memory does not suffice.
  Decoder(Backend& backend, const GptWeights& weights, const DecoderOptions& options = {});
  Decoder(const Decoder&) = delete;

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  int64_t capacity() const { return cache_.capacity(); }  // P, of each sequence

  // Appends tokens, each in [0,V), to a sequence of cache(), and returns the logits (1,V) of what
  // follows the last of them; they stay valid until the next call. REQUIRES: at least one token,
  // sequence.size() + ids.size() <= capacity(), and free pages.
  Tensor Append(CachedSequence& sequence, std::span<const int32_t> ids);
  // The same without logits. REQUIRES: as above, but there may be no token.
  void Read(CachedSequence& sequence, std::span<const int32_t> ids);

  // The result of the last pass, valid until the next: the final LayerNorm's for each row, (n,C),
  // and the logits (end - begin, V) of some of them. REQUIRES: end - begin <= kFewRows.
  const Tensor& norm() const { return buffers_.acts.norm_f.out; }
  Tensor LogitsOf(int64_t begin, int64_t end);

  // Appends to several sequences in one pass, and returns the logits that are wanted, in the order
  // of the pieces, one row for each. REQUIRES: as above, one piece for a sequence, and no more than
  // kFewRows tokens together.
  Tensor Append(std::span<const SequencePiece> pieces);

  // Another sequence of the same tokens; pages that are full are shared.
  CachedSequence Fork(const CachedSequence& sequence);

 private:
  const GptConfig& config() const { return weights_.config(); }
  PassShape Pass(int64_t rows) const;  // of as many new tokens
  // Room for so many rows in a buffer of the longest pass.
  static Tensor First(const Tensor& x, Shape shape) { return {x.raw(), x.dtype(), shape}; }
  // One pass up to the final LayerNorm. REQUIRES: one piece within a page, or few rows.
  void Forward(std::span<const SequencePiece> pieces);
  // The logits that are wanted after it.
  Tensor Logits(std::span<const SequencePiece> pieces);
  // Gives a sequence pages for more rows, and one of its own for the next.
  void Grow(CachedSequence& sequence, int64_t rows);
  // Copies the first rows of a page of some layers: those with windows, or the others.
  void CopyPage(int32_t from, int32_t to, int64_t rows, bool windows);

  Backend& backend_;
  const GptWeights& weights_;
  DecoderOptions options_;
  KvCache cache_;
  MemoryPlan plan_, cached_plan_;  // of the longest pass
  Arena arena_, cached_arena_;
  PassBuffers buffers_;
  CachedRows cached_;
  Tensor positions_;  // of the rows
};

}  // namespace folio
