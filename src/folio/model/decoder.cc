#include "folio/model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/model/transformer.h"

namespace folio {

KvCache::KvCache(const GptConfig& config, Dtype dtype, int64_t pages, int64_t sequences)
    : P_(config.n_positions),
      R_(PageTokens(config)),
      books_(static_cast<size_t>(pages)),
      free_(static_cast<size_t>(pages)) {
  for (int64_t l = 0; l < config.n_layer; ++l) {
    window_ = std::max(window_, std::min(config.layer(l).window, P_));
  }
  // Of a sequence when it has grown; while a page is copied there is one more.
  const int64_t most = CeilDiv(window_ - 1 + CachedSequence::kRollback + Decoder::kFewRows, R_) + 1;
  const int64_t windows = sequences == 0 ? pages : std::min(pages, 2 * sequences * most + 1);
  for (int64_t l = 0; l < config.n_layer; ++l) {
    plan_.Add(fmt::format("h.{}.pages", l), dtype,
              config.head_layout().Pages(config.layer(l).window > 0 ? windows : pages, R_));
  }
  plan_.Place();
  arena_ = Arena(plan_);
  for (MemoryPlan::Id l = 0; l < config.n_layer; ++l) layers_.push_back(arena_.Get(plan_, l));
  if (window_ > 0) free_windows_.resize(static_cast<size_t>(windows));
  for (std::vector<int32_t>* free : {&free_, &free_windows_}) {
    std::iota(free->rbegin(), free->rend(), 0);
  }
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
    if (At(oldest).window >= 0) FreeWindow(oldest);
    free_.push_back(oldest);
  }
  const int32_t page = free_.back();
  free_.pop_back();
  At(page) = {.users = 1};
  if (window_ > 0) TakeWindow(page);
  return page;
}

void KvCache::TakeWindow(int32_t page) {
  if (free_windows_.empty()) {
    int32_t oldest = -1;
    for (size_t i = 0; i < books_.size(); ++i) {
      const Entry& entry = books_[i];
      if (entry.window < 0 || entry.window_users > 0) continue;
      if (oldest < 0 || entry.window_used < At(oldest).window_used) {
        oldest = static_cast<int32_t>(i);
      }
    }
    FOLIO_CHECK(oldest >= 0, "the KV cache has more sequences than it was made for");
    FreeWindow(oldest);
  }
  At(page).window = free_windows_.back();
  At(page).window_users = 1;
  free_windows_.pop_back();
}

void KvCache::LetGoWindow(int32_t page) {
  Entry& entry = At(page);
  if (--entry.window_users > 0) return;
  entry.window_used = ++clock_;
  if (entry.ids.empty()) FreeWindow(page);
}

void KvCache::FreeWindow(int32_t page) {
  free_windows_.push_back(std::exchange(At(page).window, -1));
}

void KvCache::Replace(int32_t page, int32_t same) {
  Hold(same);
  if (window_ > 0) {
    if (At(same).window < 0) std::swap(At(same).window, At(page).window);
    HoldWindow(same);
    At(page).window_users = 0;
    if (At(page).window >= 0) FreeWindow(page);
  }
  LetGo(page);
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
      ids_(std::exchange(other.ids_, {})),
      pages_(std::exchange(other.pages_, {})),
      shared_(std::exchange(other.shared_, 0)),
      first_window_(std::exchange(other.first_window_, 0)) {}

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
    to[i] = static_cast<int64_t>(i) < first_window_ ? -1 : cache_->At(pages_[i]).window;
  }
}

void CachedSequence::Truncate(int64_t size) {
  FOLIO_CHECK(size <= size_, "a sequence cannot be cut to more than it has");
  size_ = size;
  ids_.resize(static_cast<size_t>(size));
  const auto kept = static_cast<size_t>(cache_->PagesOf(size));
  for (; pages_.size() > kept; pages_.pop_back()) {
    if (cache_->window_ > 0 && std::ssize(pages_) > first_window_) {
      cache_->LetGoWindow(pages_.back());
    }
    cache_->LetGo(pages_.back());
  }
  shared_ = std::min(shared_, size / cache_->R_);
  first_window_ = std::min<int64_t>(first_window_, std::ssize(pages_));
  for (; first_window_ > cache_->FirstInWindow(size); --first_window_) {
    const int32_t page = pages_[static_cast<size_t>(first_window_) - 1];
    if (cache_->At(page).window < 0) return Truncate((first_window_ - 1) * cache_->R_);
    cache_->HoldWindow(page);
  }
}

void CachedSequence::LeaveWindows() {
  if (cache_->window_ == 0) return;
  const int64_t first = cache_->FirstInWindow(size_ - kRollback);
  for (; first_window_ < first; ++first_window_) {
    cache_->LetGoWindow(pages_[static_cast<size_t>(first_window_)]);
  }
}

void CachedSequence::Recall(std::span<const int32_t> ids) {
  FOLIO_CHECK(size_ == 0 && pages_.empty(), "only an empty sequence recalls");
  const auto R = static_cast<size_t>(cache_->R_);
  for (; ids.size() >= R; ids = ids.subspan(R)) {
    const int32_t page = cache_->Find(pages_.empty() ? -1 : pages_.back(), ids.first(R));
    if (page < 0) break;
    cache_->Hold(page);
    pages_.push_back(page);
    ++shared_;
    size_ += cache_->R_;
    ids_.insert(ids_.end(), ids.begin(), ids.begin() + cache_->R_);
  }
  if (cache_->window_ == 0) return;
  first_window_ = std::ssize(pages_);
  Truncate(size_);
}

void CachedSequence::Grow(int64_t rows) {
  while (std::ssize(pages_) * cache_->R_ < size_ + rows) pages_.push_back(cache_->Take());
}

CachedSequence CachedSequence::Copy() const {
  CachedSequence copy(*cache_);
  copy.size_ = size_;
  copy.ids_.assign(ids_.begin(), ids_.end());
  copy.pages_ = pages_;
  copy.shared_ = shared_;
  copy.first_window_ = first_window_;
  for (const int32_t page : pages_) cache_->Hold(page);
  for (size_t i = static_cast<size_t>(first_window_); i < pages_.size(); ++i) {
    cache_->HoldWindow(pages_[i]);
  }
  return copy;
}

int32_t CachedSequence::RenewLastPage() {
  const int32_t page = cache_->Take(), before = std::exchange(pages_.back(), page);
  if (cache_->window_ > 0) cache_->LetGoWindow(before);
  cache_->LetGo(before);
  return page;
}

void CachedSequence::Advance(std::span<const int32_t> ids) {
  const int64_t R = cache_->R_, place = size_ / R;
  const bool whole = size_ % R == 0 && std::ssize(ids) == R;
  size_ += std::ssize(ids);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  if (whole && shared_ == place) Share(ids);
  LeaveWindows();
}

void CachedSequence::Share(std::span<const int32_t> ids) {
  const auto place = shared_;
  int32_t& page = pages_[static_cast<size_t>(place)];
  const int32_t before = place == 0 ? -1 : pages_[static_cast<size_t>(place) - 1];
  ++shared_;
  if (const int32_t same = cache_->Find(before, ids); same >= 0) {
    cache_->Replace(std::exchange(page, same), same);
    return;
  }
  KvCache::Entry& entry = cache_->At(page);
  entry.ids.assign(ids.begin(), ids.end());
  entry.before = before;
  if (before >= 0) ++cache_->At(before).children;
}

namespace {

const GptWeights& Causal(const GptWeights& weights) {
  if (weights.config().causal) return weights;
  throw UsageError(
      "this model cannot generate text",
      "causal is false: the output for a token depends on the tokens after it",
      "use folio inspect and folio explain, or train a model with model.causal = true");
}

int64_t RowsOf(std::span<const SequencePiece> pieces) {
  int64_t rows = 0;
  for (const SequencePiece& piece : pieces) rows += std::ssize(piece.ids);
  return rows;
}

}  // namespace

Decoder::Decoder(Backend& backend, const GptWeights& weights, const DecoderOptions& options)
    : backend_(backend),
      weights_(Causal(weights)),
      options_(options),
      cache_(config(), options.cache.value_or(options.dtype),
             options.pages > 0 ? options.pages : KvCache::PagesOf(config(), config().n_positions),
             options.sequences) {
  FOLIO_CHECK(backend.Supports(options.dtype) && options.dtype != Dtype::kBF16,
              "decoding is in float32 or 64");
  FOLIO_CHECK(weights.table().shard().whole(), "a shard has no whole row of logits");
  const PassShape longest = Pass(std::max(cache_.page_tokens(), kFewRows));
  plan_ = PlanBuffers(longest);
  arena_ = Arena(plan_);
  BindBuffers(longest, plan_, arena_, buffers_);
  const int64_t N = longest.T, W = KvCache::PagesOf(config(), capacity());
  const auto add = [&](std::string name, Dtype dtype, const Shape& shape) {
    return cached_plan_.Add(std::move(name), dtype, shape);
  };
  const auto tables = add("tables", Dtype::kI32, {N, W}), places = add("places", Dtype::kI32, {N});
  const auto window_tables = add("window_tables", Dtype::kI32, {N, W});
  const Shape rows = {capacity(), config().head_layout().kv_width()};
  const auto keys = add("keys", options.dtype, rows), values = add("values", options.dtype, rows);
  cached_plan_.Place();
  cached_arena_ = Arena(cached_plan_);
  const auto get = [&](MemoryPlan::Id id) { return cached_arena_.Get(cached_plan_, id); };
  cached_ = {.pages = cache_.layers(),
             .tables = get(tables),
             .window_tables = get(window_tables),
             .keys = get(keys),
             .values = get(values)};
  positions_ = get(places);
  if (buffers_.sinusoids) FillSinusoids(buffers_.sinusoids);
}

PassShape Decoder::Pass(int64_t rows) const {
  return {.config = config(),
          .B = 1,
          .T = rows,
          .kind = PassKind::kDecode,
          .options = {.dtype = options_.dtype, .lora = weights_.table().lora()}};
}

void Decoder::CopyPage(int32_t from, int32_t to, int64_t rows, bool windows) {
  const int64_t width = config().head_layout().kv_width();
  const Tensor tables = First(cached_.tables, {rows, 1}), positions = First(positions_, {rows});
  const SequenceView k(First(cached_.keys, {rows, width}), 1, rows, 0, width);
  const SequenceView v(First(cached_.values, {rows, width}), 1, rows, 0, width);
  std::iota(positions.data<int32_t>(), positions.data<int32_t>() + rows, 0);
  for (int64_t l = 0; l < config().n_layer; ++l) {
    if ((config().layer(l).window > 0) != windows) continue;
    const Tensor& pages = cache_.layers()[static_cast<size_t>(l)];
    std::fill_n(tables.data<int32_t>(), rows, from);
    backend_.Run(
        CacheRead{.pages = pages, .table = tables.Slice(0, 1).Reshape({1}), .k = k, .v = v});
    std::fill_n(tables.data<int32_t>(), rows, to);
    backend_.Run(
        CacheWrite{.k = k, .v = v, .tables = tables, .positions = positions, .pages = pages});
  }
}

void Decoder::Grow(CachedSequence& sequence, int64_t rows) {
  const int64_t begun = sequence.size() % cache_.page_tokens();
  if (begun > 0 && sequence.shares_last_page()) {
    // What is let go stays as it is until something is written.
    const int32_t from = sequence.pages().back(), window = cache_.At(from).window;
    const int32_t to = sequence.RenewLastPage();
    CopyPage(from, to, begun, /*windows=*/false);
    CopyPage(window, cache_.At(to).window, begun, /*windows=*/true);
  }
  sequence.Grow(rows);
}

CachedSequence Decoder::Fork(const CachedSequence& sequence) {
  CachedSequence fork = sequence.Copy();
  Grow(fork, 0);
  return fork;
}

void Decoder::Forward(std::span<const SequencePiece> pieces) {
  for (const SequencePiece& piece : pieces) {
    const int64_t rows = std::ssize(piece.ids);
    FOLIO_CHECK(rows >= 1 && piece.sequence->size() + rows <= capacity(),
                "the sequence is longer than the context");
    Grow(*piece.sequence, rows);
  }
  const int64_t N = RowsOf(pieces);
  BindBuffers(Pass(N), plan_, arena_, buffers_);
  const int64_t W = cached_.tables.dim(1);
  CachedRows rows = cached_;
  rows.tables = First(cached_.tables, {N, W});
  rows.window_tables = First(cached_.window_tables, {N, W});
  int64_t n = 0;
  for (const SequencePiece& piece : pieces) {
    const int64_t count = std::ssize(piece.ids), size = piece.sequence->size();
    CopyTokens(piece.ids, buffers_.ids.Reshape({N}).Slice(n, n + count), 0, config().vocab_size);
    if (buffers_.previous) {
      // The last token so far, if there is one, and then those of the piece.
      int32_t* previous = buffers_.previous.data<int32_t>() + n;
      previous[0] = size == 0 ? kElsewhere : piece.sequence->tokens().back();
      std::copy_n(piece.ids.begin(), count - 1, previous + 1);
    }
    for (int64_t i = 0; i < count; ++i, ++n) {
      positions_.data<int32_t>()[n] = static_cast<int32_t>(size + i);
      std::ranges::copy(piece.sequence->pages(), rows.tables.data<int32_t>() + n * W);
      piece.sequence->WindowPages(rows.window_tables.data<int32_t>() + n * W);
    }
  }
  rows.S = positions_.data<int32_t>()[N - 1] + 1;
  TransformerForward({.backend = backend_,
                      .config = config(),
                      .lora = weights_.table().lora(),
                      .B = 1,
                      .T = N,
                      .positions = First(positions_, {1, N}),
                      .cached = &rows},
                     weights_.params(), buffers_);
  for (const SequencePiece& piece : pieces) piece.sequence->Advance(piece.ids);
}

Tensor Decoder::Logits(std::span<const SequencePiece> pieces) {
  const PassContext pass{.backend = backend_, .config = config(), .lora = weights_.table().lora()};
  const Tensor &x = buffers_.acts.norm_f.out, &logits = buffers_.acts.logits;
  // Rows that follow each other go through the head together.
  int64_t begin = 0, end = 0, made = 0, n = 0;
  const auto flush = [&] {
    if (begin == end) return;
    HeadLogits(pass, weights_.params(), x.Slice(begin, end),
               logits.Slice(made, made + end - begin));
    made += end - begin;
  };
  for (const SequencePiece& piece : pieces) {
    const int64_t rows = std::ssize(piece.ids), first = piece.every_row ? n : n + rows - 1;
    n += rows;
    if (first != end) {
      flush();
      begin = first;
    }
    end = n;
  }
  flush();
  return logits.Slice(0, made);
}

void Decoder::Read(CachedSequence& sequence, std::span<const int32_t> ids) {
  SequencePiece piece{&sequence};
  for (; !ids.empty(); ids = ids.subspan(piece.ids.size())) {
    const int64_t R = cache_.page_tokens(), room = R - sequence.size() % R;
    piece.ids = ids.first(std::min(ids.size(), static_cast<size_t>(room)));
    Forward({&piece, 1});
  }
}

Tensor Decoder::Append(CachedSequence& sequence, std::span<const int32_t> ids) {
  FOLIO_CHECK(!ids.empty(), "nothing is appended");
  Read(sequence, ids);
  return LogitsOf(norm().dim(0) - 1, norm().dim(0));
}

Tensor Decoder::LogitsOf(int64_t begin, int64_t end) {
  FOLIO_CHECK(end - begin <= kFewRows, "logits of too many rows");
  const Tensor logits = buffers_.acts.logits.Slice(0, end - begin);
  HeadLogits({.backend = backend_, .config = config(), .lora = weights_.table().lora()},
             weights_.params(), norm().Slice(begin, end), logits);
  return logits;
}

Tensor Decoder::Append(std::span<const SequencePiece> pieces) {
  FOLIO_CHECK(!pieces.empty() && RowsOf(pieces) <= kFewRows, "too many rows for one pass");
  Forward(pieces);
  return Logits(pieces);
}

}  // namespace folio
