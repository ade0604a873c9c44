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
  struct Entry {
    Id id;
    Sequence sequence;
  };

  void Admit();
  int64_t PromisedPages();
  void ReadPages();
  // Makes one pass over the pending tokens of the sequences, which are few.
  void RunRows(std::span<Sequence* const> sequences);
  void Take(std::span<Sequence* const> sequences, const Tensor& logits, double pass_seconds);

  int64_t texts_, V_;
  Decoder decoder_;
  Id next_id_ = 0;
  std::deque<Entry> waiting_, running_;
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
  Sequence sequence(std::move(request), decoder_);
  const int64_t needed = sequence.most_pages(), R = decoder_.cache().page_tokens();
  if (needed > decoder_.cache().pages()) {
    throw UsageError(fmt::format("the text would need keys and values of {} tokens, and there is "
                                 "room for {}",
                                 WithCommas(needed * R), WithCommas(decoder_.cache().pages() * R)),
                     "prompt and tokens to write together are more than the cache holds",
                     "ask for fewer tokens, or for a larger cache");
  }
  waiting_.push_back({next_id_, std::move(sequence)});
  return next_id_++;
}

void DecodeBatch::Impl::Cancel(Id id) {
  if (const auto found = std::ranges::find(running_, id, &Entry::id); found != running_.end()) {
    if (!found->sequence.finished()) found->sequence.Cancel();
  }
  if (const auto found = std::ranges::find(waiting_, id, &Entry::id); found != waiting_.end()) {
    Sequence sequence = std::move(found->sequence);
    waiting_.erase(found);
    sequence.Cancel();
  }
}

// Returns the number of pages that running sequences have not taken yet.
int64_t DecodeBatch::Impl::PromisedPages() {
  int64_t pages = 0;
  for (const auto& [id, sequence] : running_) {
    if (!sequence.finished()) pages += sequence.missing_pages();
  }
  return pages;
}

void DecodeBatch::Impl::Admit() {
  while (!waiting_.empty() && running() < texts_) {
    Sequence& sequence = waiting_.front().sequence;
    sequence.Join();
    if (sequence.missing_pages() > decoder_.cache().free_pages() - PromisedPages()) {
      return sequence.Leave();
    }
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void DecodeBatch::Impl::Take(std::span<Sequence* const> sequences, const Tensor& logits,
                             double pass_seconds) {
  std::vector<Tensor> rows;
  int64_t begin = 0;
  for (Sequence* sequence : sequences) {
    const SequencePiece piece = sequence->pending();
    const int64_t count = piece.every_row ? std::ssize(piece.ids) : 1;
    rows.push_back(logits.Slice(begin, begin + count));
    begin += count;
  }
  ParallelFor(std::ssize(sequences), [&](int64_t i, int) {
    sequences[static_cast<size_t>(i)]->Choose(rows[static_cast<size_t>(i)], pass_seconds);
  });
  for (Sequence* sequence : sequences) {
    if (!sequence->finished()) sequence->HandOut();
  }
}

void DecodeBatch::Impl::ReadPages() {
  for (Entry& entry : running_) {
    Sequence& sequence = entry.sequence;
    if (sequence.finished()) continue;
    const SequencePiece piece = sequence.pending();
    const bool observed = sequence.observed();
    if (std::ssize(piece.ids) <= Decoder::kFewRows && !observed) continue;
    const int64_t R = decoder_.cache().page_tokens(), room = R - piece.sequence->size() % R;
    const int64_t count = std::min(room, std::ssize(piece.ids));
    decoder_.Read(*piece.sequence, piece.ids.first(static_cast<size_t>(count)));
    if (observed) sequence.Observe(decoder_);
    sequence.ReportRead();
    if (count < std::ssize(piece.ids)) return;
    if (sequence.EndReason()) return sequence.End();
    Sequence* const one = &sequence;
    return Take({&one, 1}, decoder_.LogitsOf(decoder_.norm().dim(0) - 1, decoder_.norm().dim(0)),
                0);
  }
}

void DecodeBatch::Impl::RunRows(std::span<Sequence* const> sequences) {
  if (sequences.empty()) return;
  std::vector<SequencePiece> pieces;
  for (Sequence* sequence : sequences) pieces.push_back(sequence->pending());
  Tensor logits;
  const double seconds = SecondsOf([&] { logits = decoder_.Append(pieces); });
  Take(sequences, logits, seconds);
}

bool DecodeBatch::Impl::Step() {
  Admit();
  const bool alone = running_.size() == 1;
  std::vector<Sequence*> sequences;
  int64_t rows = 0;
  for (Entry& entry : running_) {
    Sequence& sequence = entry.sequence;
    if (!sequence.finished()) sequence.Prepare(alone);
    if (sequence.finished()) continue;
    const int64_t count = std::ssize(sequence.pending().ids);
    if (count > Decoder::kFewRows || sequence.observed()) continue;
    if (rows + count > Decoder::kFewRows) {
      RunRows(std::exchange(sequences, {}));
      rows = 0;
    }
    sequences.push_back(&sequence);
    rows += count;
  }
  RunRows(sequences);
  ReadPages();
  std::erase_if(running_, [](const Entry& entry) { return entry.sequence.finished(); });
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
