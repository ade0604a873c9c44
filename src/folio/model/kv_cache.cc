#include "folio/model/kv_cache.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "folio/base/check.h"

namespace folio {
namespace {

// Equal hashes do not mean equal pages.
uint64_t HashOf(int32_t before, std::span<const int32_t> ids) {
  const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size_bytes());
  return std::hash<std::string_view>()(bytes) ^ static_cast<uint64_t>(before) * 0x9E3779B97F4A7C15;
}

}  // namespace

FreePages::FreePages(int64_t pages) : free_(static_cast<size_t>(pages)) {
  std::iota(free_.begin(), free_.end(), 0);
  for (auto page = free_.begin(); page != free_.end(); ++page) places_.push_back(page);
}

KvCache::KvCache(const GptConfig& config, Dtype dtype, int64_t pages, int64_t sequences,
                 Memory& memory)
    : P_(config.n_positions),
      R_(PageTokens(config)),
      entries_(static_cast<size_t>(pages)),
      free_(pages) {
  for (int64_t l = 0; l < config.n_layer; ++l) {
    window_ = std::max(window_, std::min(config.layer(l).window, P_));
  }
  // The pages of a sequence that has grown; while a page is copied there is one more.
  const int64_t most =
      CeilDiv(window_ - 1 + CachedSequence::kRollback + LinearForward::kFewRows, R_) + 1;
  const int64_t windows = sequences == 0 ? pages : std::min(pages, 2 * sequences * most + 1);
  for (int64_t l = 0; l < config.n_layer; ++l) {
    plan_.Add(fmt::format("h.{}.pages", l), dtype,
              config.head_layout().Pages(config.layer(l).window > 0 ? windows : pages, R_));
  }
  plan_.Place();
  arena_ = Arena(plan_, memory);
  for (MemoryPlan::Id l = 0; l < config.n_layer; ++l) layers_.push_back(arena_.Get(plan_, l));
  if (!has_windows()) return;
  free_windows_ = FreePages(windows);
  window_owners_.assign(static_cast<size_t>(windows), -1);
}

int32_t KvCache::Allocate() {
  FOLIO_CHECK(!free_.empty(), "the KV cache is full");
  const int32_t page = free_.first();
  if (!At(page).ids.empty()) Evict(page);
  free_.Take(page);
  At(page) = {.users = 1};
  if (has_windows()) AllocateWindow(page);
  return page;
}

// Every page that follows this one has become free before it, and so was evicted before it.
void KvCache::Evict(int32_t page) {
  const Entry& entry = At(page);
  if (entry.window >= 0) {
    free_windows_.Take(entry.window);
    FreeWindow(page);
  }
  auto [found, end] = shared_.equal_range(HashOf(entry.before, entry.ids));
  while (found != end && found->second != page) ++found;
  shared_.erase(found);
}

void KvCache::Retain(int32_t page) {
  if (At(page).users++ == 0) free_.Take(page);
}

void KvCache::Release(int32_t page) {
  Entry& entry = At(page);
  if (--entry.users > 0) return;
  entry.ids.empty() ? free_.PutFirst(page) : free_.PutLast(page);
}

void KvCache::AllocateWindow(int32_t page) {
  FOLIO_CHECK(!free_windows_.empty(), "the KV cache has more sequences than it was made for");
  const int32_t window = free_windows_.first();
  free_windows_.Take(window);
  int32_t& owner = window_owners_[static_cast<size_t>(window)];
  if (owner >= 0) At(owner).window = -1;
  owner = page;
  At(page).window = window;
  At(page).window_users = 1;
}

void KvCache::RetainWindow(int32_t page) {
  if (At(page).window_users++ == 0) free_windows_.Take(At(page).window);
}

void KvCache::ReleaseWindow(int32_t page) {
  Entry& entry = At(page);
  if (--entry.window_users > 0) return;
  entry.ids.empty() ? FreeWindow(page) : free_windows_.PutLast(entry.window);
}

void KvCache::FreeWindow(int32_t page) {
  const int32_t window = std::exchange(At(page).window, -1);
  window_owners_[static_cast<size_t>(window)] = -1;
  free_windows_.PutFirst(window);
}

int32_t KvCache::Find(int32_t before, std::span<const int32_t> ids) {
  const auto [begin, end] = shared_.equal_range(HashOf(before, ids));
  for (auto found = begin; found != end; ++found) {
    const Entry& entry = At(found->second);
    ++compared_pages_;
    if (entry.before == before && std::ranges::equal(entry.ids, ids)) return found->second;
  }
  return -1;
}

int32_t KvCache::Share(int32_t page, int32_t before, std::span<const int32_t> ids) {
  if (const int32_t same = Find(before, ids); same >= 0) {
    Replace(page, same);
    return same;
  }
  std::vector<int32_t> copy(ids.begin(), ids.end());
  shared_.emplace(HashOf(before, ids), page);
  At(page).ids = std::move(copy);
  At(page).before = before;
  return page;
}

void KvCache::Replace(int32_t page, int32_t same) {
  Retain(same);
  if (has_windows() && At(same).window >= 0) {
    RetainWindow(same);
    ReleaseWindow(page);
  } else if (has_windows()) {
    At(same).window = std::exchange(At(page).window, -1);
    At(same).window_users = 1;
    window_owners_[static_cast<size_t>(At(same).window)] = same;
  }
  Release(page);
}

CachedSequence::CachedSequence(KvCache& cache) : cache_(&cache) {
  ids_.reserve(static_cast<size_t>(cache.capacity()));
  pages_.reserve(static_cast<size_t>(cache.PagesOf(cache.capacity())));
}

CachedSequence::CachedSequence(CachedSequence&& other) noexcept : cache_(other.cache_) {
  *this = std::move(other);
}

CachedSequence& CachedSequence::operator=(CachedSequence&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(size_, other.size_);
  std::swap(ids_, other.ids_);
  std::swap(pages_, other.pages_);
  std::swap(shared_, other.shared_);
  std::swap(first_window_, other.first_window_);
  return *this;
}

void CachedSequence::WindowPages(int32_t* to) const {
  for (size_t i = 0; i < pages_.size(); ++i) {
    to[i] = static_cast<int64_t>(i) < first_window_ ? -1 : cache_->window_page(pages_[i]);
  }
}

void CachedSequence::Truncate(int64_t size) {
  FOLIO_CHECK(size <= size_, "a sequence cannot be cut to more than it has");
  size_ = size;
  ids_.resize(static_cast<size_t>(size));
  const auto kept = static_cast<size_t>(cache_->PagesOf(size));
  for (; pages_.size() > kept; pages_.pop_back()) {
    if (cache_->has_windows() && std::ssize(pages_) > first_window_) {
      cache_->ReleaseWindow(pages_.back());
    }
    cache_->Release(pages_.back());
  }
  shared_ = std::min(shared_, size / cache_->page_tokens());
  first_window_ = std::min<int64_t>(first_window_, std::ssize(pages_));
  for (; first_window_ > cache_->FirstInWindow(size); --first_window_) {
    const int32_t page = pages_[static_cast<size_t>(first_window_) - 1];
    if (cache_->window_page(page) < 0) return Truncate((first_window_ - 1) * cache_->page_tokens());
    cache_->RetainWindow(page);
  }
}

void CachedSequence::LeaveWindows() {
  if (!cache_->has_windows()) return;
  const int64_t first = cache_->FirstInWindow(size_ - kRollback);
  for (; first_window_ < first; ++first_window_) {
    cache_->ReleaseWindow(pages_[static_cast<size_t>(first_window_)]);
  }
}

void CachedSequence::Recall(std::span<const int32_t> ids) {
  FOLIO_CHECK(size_ == 0 && pages_.empty(), "only an empty sequence recalls");
  const auto R = static_cast<size_t>(cache_->page_tokens());
  for (; ids.size() >= R; ids = ids.subspan(R)) {
    const int32_t page = cache_->Find(pages_.empty() ? -1 : pages_.back(), ids.first(R));
    if (page < 0) break;
    cache_->Retain(page);
    pages_.push_back(page);
    ++shared_;
    size_ += cache_->page_tokens();
    ids_.insert(ids_.end(), ids.begin(), ids.begin() + cache_->page_tokens());
  }
  if (!cache_->has_windows()) return;
  first_window_ = std::ssize(pages_);
  Truncate(size_);
}

void CachedSequence::Reserve(int64_t rows) {
  const int64_t pages = cache_->PagesOf(size_ + rows);
  while (std::ssize(pages_) < pages) pages_.push_back(cache_->Allocate());
}

CachedSequence CachedSequence::Copy() const {
  CachedSequence copy(*cache_);
  copy.size_ = size_;
  copy.ids_.assign(ids_.begin(), ids_.end());
  copy.pages_ = pages_;
  copy.shared_ = shared_;
  copy.first_window_ = first_window_;
  for (const int32_t page : pages_) cache_->Retain(page);
  if (!cache_->has_windows()) return copy;
  for (size_t i = static_cast<size_t>(first_window_); i < pages_.size(); ++i) {
    cache_->RetainWindow(pages_[i]);
  }
  return copy;
}

int32_t CachedSequence::RenewLastPage() {
  const int32_t page = cache_->Allocate(), before = std::exchange(pages_.back(), page);
  if (cache_->has_windows()) cache_->ReleaseWindow(before);
  cache_->Release(before);
  return page;
}

void CachedSequence::Advance(std::span<const int32_t> ids) {
  const int64_t R = cache_->page_tokens(), place = size_ / R;
  const bool whole = size_ % R == 0 && std::ssize(ids) == R;
  size_ += std::ssize(ids);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  if (whole && shared_ == place) {
    const auto last = static_cast<size_t>(place);
    pages_[last] = cache_->Share(pages_[last], place == 0 ? -1 : pages_[last - 1], ids);
    ++shared_;
  }
  LeaveWindows();
}

}  // namespace folio
