#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/base/thread_pool.h"
#include "folio/model/config.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

// The pages that no sequence has, in the order in which they are taken: those without contents, the
// last freed first, then those that can still be shared, the longest unused first. Only the
// constructor allocates.
class FreePages {
 public:
  explicit FreePages(int64_t pages);  // all free, page 0 first

  bool empty() const { return free_.empty(); }
  int64_t size() const { return std::ssize(free_); }
  int32_t first() const { return free_.front(); }
  void Take(int32_t page) { taken_.splice(taken_.end(), free_, At(page)); }
  void PutFirst(int32_t page) { free_.splice(free_.begin(), taken_, At(page)); }
  void PutLast(int32_t page) { free_.splice(free_.end(), taken_, At(page)); }

 private:
  using Pages = std::list<int32_t>;
  Pages::iterator At(int32_t page) const { return places_[static_cast<size_t>(page)]; }

  Pages free_, taken_;
  std::vector<Pages::iterator> places_;
};

// The KV cache: keys and values of the tokens of many sequences, in pages (ops.h). A sequence takes
// page after page as it grows. Pages that were filled in one pass, as those of prompts are, stay
// known by their tokens: sequences that begin alike share them, also after the sequence that wrote
// them is gone, until their memory is needed. Only page metadata allocates after construction.
//
// Layers with a window (config.h) have pages of their own, of which a sequence keeps those that its
// next tokens may attend to: they are fewer, and each stands for one of the other pages.
class KvCache {
 public:
  // `pages` is a hard limit. Pages that nobody has written cost no memory. `sequences` is the
  // largest number at once, 0 for any number: layers with windows need no more pages than these
  // have, and as many again for texts that begin alike.
  KvCache(const GptConfig& config, Dtype dtype, int64_t pages, int64_t sequences = 0,
          Memory& memory = HostMemory());
  KvCache(const KvCache&) = delete;

  // Returns the tokens of a page: R of ops.h, and the piece in which a prompt is read.
  static int64_t PageTokens(const GptConfig& config) {
    return std::min<int64_t>(config.n_positions, 128);
  }
  // Returns the pages that so many tokens of a sequence take.
  static int64_t PagesOf(const GptConfig& config, int64_t tokens) {
    return CeilDiv(tokens, PageTokens(config));
  }

  int64_t PagesOf(int64_t tokens) const { return CeilDiv(tokens, R_); }

  int64_t page_tokens() const { return R_; }
  int64_t capacity() const { return P_; }  // tokens of a sequence
  int64_t pages() const { return static_cast<int64_t>(entries_.size()); }
  int64_t bytes() const { return static_cast<int64_t>(plan_.arena_bytes()); }
  int64_t free_pages() const { return free_.size(); }  // that no sequence has
  // (pages,K,2,R,D) each, with fewer pages where there is a window.
  std::span<const Tensor> layers() const { return layers_; }

  // The rest is for CachedSequence and Decoder, by the number of a page. A sequence that has a page
  // has those before it too, and releases them after it.

  // Returns a page of one user, with one for layers with windows. REQUIRES: free_pages() > 0.
  int32_t Allocate();
  void Retain(int32_t page);
  void Release(int32_t page);
  // Returns true where one sequence has the page, and no other can find it.
  bool exclusive(int32_t page) const { return At(page).users == 1 && At(page).ids.empty(); }

  bool has_windows() const { return window_ > 0; }
  // Returns the page that stands for `page` in layers with windows, -1 for none.
  int32_t window_page(int32_t page) const { return At(page).window; }
  void RetainWindow(int32_t page);
  void ReleaseWindow(int32_t page);
  // Returns the first page that tokens from `position` on need in layers with windows.
  int64_t FirstInWindow(int64_t position) const {
    return std::max<int64_t>(0, position + 1 - window_) / R_;
  }

  // Returns the shared page with these tokens that follows `before` (-1: begins a sequence), or -1.
  int32_t Find(int32_t before, std::span<const int32_t> ids);
  // Lets other sequences find `page`, which has these tokens, follows `before` and is exclusive.
  // Returns it, or the equal page that is known already and now stands for it.
  int32_t Share(int32_t page, int32_t before, std::span<const int32_t> ids);
  // Returns the number of pages whose tokens Find has compared so far.
  int64_t compared_pages() const { return compared_pages_; }

 private:
  struct Entry {
    int64_t users = 0;              // sequences that have it
    std::vector<int32_t> ids = {};  // its tokens; empty for one that cannot be shared
    int32_t before = -1;            // the page that it follows, if it can be shared
    int32_t window = -1;            // the page that stands for it in layers with windows, or -1
    int64_t window_users = 0;       // sequences that need that one
  };

  Entry& At(int32_t page) { return entries_[static_cast<size_t>(page)]; }
  const Entry& At(int32_t page) const { return entries_[static_cast<size_t>(page)]; }
  void AllocateWindow(int32_t page);
  void FreeWindow(int32_t page);
  // Forgets the contents of a shared page that no sequence has.
  void Evict(int32_t page);
  // Lets `same` stand for `page`, which has the same tokens and is exclusive.
  void Replace(int32_t page, int32_t same);

  int64_t P_, R_;
  int64_t window_ = 0;  // the widest, 0 for none
  MemoryPlan plan_;
  Arena arena_;
  std::vector<Tensor> layers_;
  std::vector<Entry> entries_;
  FreePages free_, free_windows_{0};
  std::vector<int32_t> window_owners_;  // for which page each page of a window stands, or -1
  std::unordered_multimap<uint64_t, int32_t> shared_;  // pages by the hash of `before` and `ids`
  int64_t compared_pages_ = 0;
};

// The keys and values of one sequence that grows (decoder.h), in pages that it gives back.
class CachedSequence {
 public:
  // `cache` must outlive it.
  explicit CachedSequence(KvCache& cache);
  CachedSequence(CachedSequence&& other) noexcept;
  CachedSequence& operator=(CachedSequence&& other) noexcept;
  ~CachedSequence() { Clear(); }

  int64_t size() const { return size_; }                    // tokens
  std::span<const int32_t> tokens() const { return ids_; }  // so many
  std::span<const int32_t> pages() const { return pages_; }
  // Writes the page of layers with windows for each page, -1 where nothing needs it.
  void WindowPages(int32_t* to) const;
  // Begins with pages that the cache has of a text that begins with these tokens; size() is then
  // the number of tokens in them. REQUIRES: it is empty.
  void Recall(std::span<const int32_t> ids);
  // Forgets all but the first `size` tokens. Where layers have windows, and these have gone on by
  // more than kRollback tokens from there, it may forget more, up to all. REQUIRES: size <= size().
  void Truncate(int64_t size);
  static constexpr int64_t kRollback = LinearForward::kFewRows;
  void Clear() { Truncate(0); }

  // The rest is for Decoder, which writes the keys and values.

  // Allocates the pages of `rows` more tokens.
  void Reserve(int64_t rows);
  // Keeps the next tokens, which every layer has written, in one pass.
  void Advance(std::span<const int32_t> ids);
  // Returns a sequence that has the same pages.
  CachedSequence Copy() const;
  // Returns true where the last page must not be written. REQUIRES: there is one.
  bool shares_last_page() const { return !cache_->exclusive(pages_.back()); }
  // Replaces the last page by a new one, and returns that.
  int32_t RenewLastPage();

 private:
  // Releases the pages that tokens from size() - kRollback on do not need in layers with windows.
  void LeaveWindows();

  KvCache* cache_;
  int64_t size_ = 0;
  std::vector<int32_t> ids_ = {}, pages_ = {};
  int64_t shared_ = 0;        // the first pages, which can be shared
  int64_t first_window_ = 0;  // the first page that is kept in layers with windows
};

}  // namespace folio
