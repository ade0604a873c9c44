#include "folio/model/kv_cache.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/check.h"
#include "folio/model/head_layout.h"

namespace folio {

KvCache::KvCache(const GptConfig& config, Dtype dtype, int64_t pages)
    : P_(config.n_positions),
      R_(PageTokens(config)),
      books_(static_cast<size_t>(pages)),
      free_(static_cast<size_t>(pages)) {
  const Shape shape = config.head_layout().Pages(pages, R_);
  for (int64_t l = 0; l < config.n_layer; ++l)
    plan_.Add(fmt::format("h.{}.pages", l), dtype, shape);
  plan_.Place();
  arena_ = Arena(plan_);
  for (MemoryPlan::Id l = 0; l < config.n_layer; ++l) layers_.push_back(arena_.Get(plan_, l));
  for (size_t i = 0; i < free_.size(); ++i) free_[i] = static_cast<int32_t>(free_.size() - 1 - i);
}

int64_t KvCache::free_pages() const {
  return std::ranges::count_if(books_, [](const Entry& page) { return page.users == 0; });
}

int32_t KvCache::Take() {
  if (free_.empty()) {
    // A page whose sequences are gone has children whose sequences are gone too.
    int32_t oldest = -1;
    for (size_t i = 0; i < books_.size(); ++i) {
      const Entry& page = books_[i];
      if (page.users > 0 || page.children > 0) continue;
      if (oldest < 0 || page.used < At(oldest).used) oldest = static_cast<int32_t>(i);
    }
    FOLIO_CHECK(oldest >= 0, "the KV cache is full");
    if (At(oldest).before >= 0) --At(At(oldest).before).children;
    free_.push_back(oldest);
  }
  const int32_t page = free_.back();
  free_.pop_back();
  At(page) = {.users = 1};
  return page;
}

void KvCache::LetGo(int32_t page) {
  Entry& entry = At(page);
  if (--entry.users > 0) return;
  entry.used = ++clock_;
  if (entry.ids.empty()) free_.push_back(page);
}

int32_t KvCache::Find(int32_t before, std::span<const int32_t> ids) const {
  for (size_t i = 0; i < books_.size(); ++i) {
    const Entry& page = books_[i];
    if (page.before == before && std::ranges::equal(page.ids, ids)) return static_cast<int32_t>(i);
  }
  return -1;
}

CachedSequence::CachedSequence(CachedSequence&& other) noexcept
    : cache_(other.cache_),
      size_(std::exchange(other.size_, 0)),
      pages_(std::exchange(other.pages_, {})),
      shared_(std::exchange(other.shared_, 0)) {}

CachedSequence& CachedSequence::operator=(CachedSequence&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(size_, other.size_);
  std::swap(pages_, other.pages_);
  std::swap(shared_, other.shared_);
  return *this;
}

void CachedSequence::Truncate(int64_t size) {
  FOLIO_CHECK(size <= size_, "a sequence cannot be cut to more than it has");
  size_ = size;
  const auto kept = static_cast<size_t>(cache_->PagesOf(size));
  for (; pages_.size() > kept; pages_.pop_back()) cache_->LetGo(pages_.back());
  shared_ = std::min(shared_, size / cache_->R_);
}

void CachedSequence::Recall(std::span<const int32_t> ids) {
  FOLIO_CHECK(size_ == 0 && pages_.empty(), "only an empty sequence recalls");
  const auto R = static_cast<size_t>(cache_->R_);
  for (; ids.size() >= R; ids = ids.subspan(R)) {
    const int32_t page = cache_->Find(pages_.empty() ? -1 : pages_.back(), ids.first(R));
    if (page < 0) return;
    cache_->Hold(page);
    pages_.push_back(page);
    ++shared_;
    size_ += cache_->R_;
  }
}

void CachedSequence::Grow(int64_t rows) {
  while (std::ssize(pages_) * cache_->R_ < size_ + rows) pages_.push_back(cache_->Take());
}

CachedSequence CachedSequence::Copy() const {
  CachedSequence copy(*cache_);
  copy.size_ = size_;
  copy.pages_ = pages_;
  copy.shared_ = shared_;
  for (const int32_t page : pages_) cache_->Hold(page);
  return copy;
}

int32_t CachedSequence::RenewLastPage() {
  const int32_t page = cache_->Take();
  cache_->LetGo(std::exchange(pages_.back(), page));
  return page;
}

void CachedSequence::Advance(std::span<const int32_t> ids) {
  const int64_t R = cache_->R_, place = size_ / R;
  const bool whole = size_ % R == 0 && std::ssize(ids) == R;
  size_ += std::ssize(ids);
  if (!whole || shared_ != place) return;
  int32_t& page = pages_[static_cast<size_t>(place)];
  const int32_t before = place == 0 ? -1 : pages_[static_cast<size_t>(place) - 1];
  ++shared_;
  if (const int32_t same = cache_->Find(before, ids); same >= 0) {
    cache_->Hold(same);
    cache_->LetGo(std::exchange(page, same));
    return;
  }
  KvCache::Entry& entry = cache_->At(page);
  entry.ids.assign(ids.begin(), ids.end());
  entry.before = before;
  if (before >= 0) ++cache_->At(before).children;
}

}  // namespace folio
