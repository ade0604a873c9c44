#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/model/config.h"
#include "folio/tensor/plan.h"

namespace folio {

// The KV cache: keys and values of the tokens of many sequences, in pages (ops.h). A sequence takes
// page after page as it grows. Pages that were filled in one pass, as those of prompts are, stay
// known by their tokens: sequences that begin alike share them, also when who made them is gone,
// until their memory is needed. After construction only the books allocate.
class KvCache {
 public:
  // `pages` is a hard limit. What nobody has written costs no memory.
  KvCache(const GptConfig& config, Dtype dtype, int64_t pages);
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
  int64_t free_pages() const;                                 // that no sequence has
  std::span<const Tensor> layers() const { return layers_; }  // (pages,K,2,R,D) each

 private:
  friend class CachedSequence;

  // A page as the cache knows it.
  struct Entry {
    int64_t users = 0;              // sequences that have it
    std::vector<int32_t> ids = {};  // its tokens; empty for one that cannot be shared
    int32_t before = -1;            // the page that stands before it, if it can be shared
    int64_t children = 0;           // shared pages that stand behind it
    int64_t used = 0;               // when it was let go
  };

  Entry& At(int32_t page) { return books_[static_cast<size_t>(page)]; }
  int32_t Take();  // REQUIRES: free_pages() > 0
  void Hold(int32_t page) { ++At(page).users; }
  void LetGo(int32_t page);
  // The page with these tokens behind that one (-1: at the beginning), or -1.
  int32_t Find(int32_t before, std::span<const int32_t> ids) const;
  bool exclusive(int32_t page) { return At(page).users == 1 && At(page).ids.empty(); }

  int64_t P_, R_;
  int64_t clock_ = 0;
  MemoryPlan plan_;
  Arena arena_;
  std::vector<Tensor> layers_;
  std::vector<Entry> books_;
  std::vector<int32_t> free_;  // pages that are nothing, the next one last
};

// The keys and values of one sequence that grows (model/decoder.h), in pages that it gives back.
class CachedSequence {
 public:
  // `cache` must outlive it.
  explicit CachedSequence(KvCache& cache) : cache_(&cache) {
    pages_.reserve(
        static_cast<size_t>((cache.capacity() + cache.page_tokens() - 1) / cache.page_tokens()));
  }
  CachedSequence(CachedSequence&& other) noexcept;
  CachedSequence& operator=(CachedSequence&& other) noexcept;
  ~CachedSequence() { Clear(); }

  int64_t size() const { return size_; }  // tokens
  std::span<const int32_t> pages() const { return pages_; }
  // Begins with pages that the cache has of a text that begins with these tokens: size() says with
  // how many of them. REQUIRES: it is empty.
  void Recall(std::span<const int32_t> ids);
  // Forgets all but the first `size` tokens. REQUIRES: size <= size().
  void Truncate(int64_t size);
  void Clear() { Truncate(0); }

 private:
  friend class Decoder;

  // Has pages for `rows` more tokens.
  void Grow(int64_t rows);
  // Keeps the next tokens, which every layer has written, in one pass.
  void Advance(std::span<const int32_t> ids);
  // One with the same pages.
  CachedSequence Copy() const;
  bool shares_last_page() const { return !cache_->exclusive(pages_.back()); }
  // Takes another page in place of the last, and returns it.
  int32_t RenewLastPage();

  KvCache* cache_;
  int64_t size_ = 0;
  std::vector<int32_t> pages_ = {};
  int64_t shared_ = 0;  // of these, from the first: can be shared
};

}  // namespace folio
