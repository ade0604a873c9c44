#include "folio/infer/decode_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/infer/sequence.h"

namespace folio {

namespace {

int64_t RequirePositive(int64_t texts) {
  if (texts < 1) throw UsageError("a batch has room for one text at least");
  return texts;
}

}  // namespace

class DecodeBatch::Impl {
 public:
  Impl(Backend& backend, const GptWeights& weights, const DecodeBatchOptions& options);

  int64_t context() const { return decoder_.capacity(); }
  Id Add(TextRequest request);
  void Cancel(Id id);
  bool Step();
  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }
  const KvCache& cache() const { return decoder_.cache(); }

 private:
  struct Text {
    Id id;
    Sequence text;
    bool done = false;
  };

  void Admit();
  int64_t PromisedPages();
  void ReadPages();
  // One pass over these texts' pending tokens, which are few.
  void RunRows(std::span<Text* const> texts);
  void Take(std::span<Text* const> texts, const Tensor& logits, double pass_seconds);

  int64_t texts_, V_;
  Decoder decoder_;
  Id next_id_ = 0;
  std::deque<Text> waiting_, running_;
};

DecodeBatch::Impl::Impl(Backend& backend, const GptWeights& weights,
                        const DecodeBatchOptions& options)
    : texts_(RequirePositive(options.texts)),
      V_(weights.config().vocab_size),
      decoder_(
          backend, weights,
          {.cache = options.cache,
           .pages = options.pages > 0 ? options.pages
                                      : texts_ * KvCache::PagesOf(weights.config(),
                                                                  weights.config().n_positions)}) {}

DecodeBatch::Id DecodeBatch::Impl::Add(TextRequest request) {
  CheckGeneration(request.prompt, request.options, context(), V_);
  Text text{next_id_, Sequence(std::move(request), decoder_)};
  const int64_t needed = text.text.most_pages(), R = decoder_.cache().page_tokens();
  if (needed > decoder_.cache().pages()) {
    throw UsageError(fmt::format("the text would need keys and values of {} tokens, and there is "
                                 "room for {}",
                                 WithCommas(needed * R), WithCommas(decoder_.cache().pages() * R)),
                     "prompt and tokens to write together are more than the cache holds",
                     "ask for fewer tokens, or for a larger cache");
  }
  waiting_.push_back(std::move(text));
  return next_id_++;
}

void DecodeBatch::Impl::Cancel(Id id) {
  const auto is_it = [&](const Text& text) { return text.id == id && !text.done; };
  if (const auto found = std::ranges::find_if(running_, is_it); found != running_.end()) {
    found->done = true;
    found->text.End(FinishReason::kCancelled);
  }
  if (const auto found = std::ranges::find_if(waiting_, is_it); found != waiting_.end()) {
    Text text = std::move(*found);
    waiting_.erase(found);
    text.text.End(FinishReason::kCancelled);
  }
}

// Pages that texts have not taken yet.
int64_t DecodeBatch::Impl::PromisedPages() {
  int64_t pages = 0;
  for (Text& text : running_) {
    if (text.done) continue;
    pages += text.text.most_pages() - std::ssize(text.text.sequence().pages());
  }
  return pages;
}

void DecodeBatch::Impl::Admit() {
  while (!waiting_.empty() && running() < texts_) {
    Text& text = waiting_.front();
    text.text.Join();
    const int64_t needed = text.text.most_pages() - std::ssize(text.text.sequence().pages());
    if (needed > decoder_.cache().free_pages() - PromisedPages()) {
      text.text.sequence().Clear();
      return;
    }
    running_.push_back(std::move(text));
    waiting_.pop_front();
  }
}

void DecodeBatch::Impl::Take(std::span<Text* const> texts, const Tensor& logits,
                             double pass_seconds) {
  std::vector<Tensor> rows;
  int64_t begin = 0;
  for (Text* text : texts) {
    const SequencePiece piece = text->text.pending();
    const int64_t count = piece.every_row ? std::ssize(piece.ids) : 1;
    rows.push_back(logits.Slice(begin, begin + count));
    begin += count;
  }
  ParallelFor(std::ssize(texts), [&](int64_t i, int) {
    texts[static_cast<size_t>(i)]->text.Choose(rows[static_cast<size_t>(i)], pass_seconds);
  });
  for (Text* text : texts) {
    if (!text->done) text->done = !text->text.HandOut() || text->done;
  }
}

void DecodeBatch::Impl::ReadPages() {
  for (Text& text : running_) {
    if (text.done) continue;
    const SequencePiece piece = text.text.pending();
    const bool looked_at = text.text.looked_at();
    if (std::ssize(piece.ids) <= Decoder::kFewRows && !looked_at) continue;
    const int64_t R = decoder_.cache().page_tokens(), room = R - piece.sequence->size() % R;
    const int64_t count = std::min(room, std::ssize(piece.ids));
    decoder_.Read(*piece.sequence, piece.ids.first(static_cast<size_t>(count)));
    if (looked_at) text.text.Look(decoder_);
    text.text.TellRead();
    if (count < std::ssize(piece.ids)) return;
    if (text.text.wants_tokens()) {
      Text* const one = &text;
      Take({&one, 1}, decoder_.LogitsOf(decoder_.norm().dim(0) - 1, decoder_.norm().dim(0)), 0);
    } else {
      text.done = true;
      text.text.End(FinishReason::kLength);
    }
    return;
  }
}

void DecodeBatch::Impl::RunRows(std::span<Text* const> texts) {
  if (texts.empty()) return;
  std::vector<SequencePiece> pieces;
  for (Text* text : texts) pieces.push_back(text->text.pending());
  Tensor logits;
  const double seconds = SecondsOf([&] { logits = decoder_.Append(pieces); });
  Take(texts, logits, seconds);
}

bool DecodeBatch::Impl::Step() {
  Admit();
  const bool alone = running_.size() == 1;
  std::vector<Text*> texts;
  int64_t rows = 0;
  for (Text& text : running_) {
    text.done = text.done || !text.text.Prepare(alone);
    if (text.done) continue;
    const int64_t count = std::ssize(text.text.pending().ids);
    if (count > Decoder::kFewRows || text.text.looked_at()) continue;
    if (rows + count > Decoder::kFewRows) {
      RunRows(std::exchange(texts, {}));
      rows = 0;
    }
    texts.push_back(&text);
    rows += count;
  }
  RunRows(texts);
  ReadPages();
  std::erase_if(running_, [](const Text& text) { return text.done; });
  return !running_.empty() || !waiting_.empty();
}

DecodeBatch::DecodeBatch(Backend& backend, const GptWeights& weights,
                         const DecodeBatchOptions& options)
    : impl_(std::make_unique<Impl>(backend, weights, options)) {}

DecodeBatch::~DecodeBatch() = default;

int64_t DecodeBatch::context() const {
  return impl_->context();
}

DecodeBatch::Id DecodeBatch::Add(TextRequest request) {
  return impl_->Add(std::move(request));
}

void DecodeBatch::Cancel(Id id) {
  impl_->Cancel(id);
}

bool DecodeBatch::Step() {
  return impl_->Step();
}

int64_t DecodeBatch::running() const {
  return impl_->running();
}

int64_t DecodeBatch::waiting() const {
  return impl_->waiting();
}

int64_t DecodeBatch::cache_bytes() const {
  return impl_->cache().bytes();
}

int64_t DecodeBatch::used_cache_bytes() const {
  const KvCache& cache = impl_->cache();
  return cache.bytes() / cache.pages() * (cache.pages() - cache.free_pages());
}

}  // namespace folio
