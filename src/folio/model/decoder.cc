#include "folio/model/decoder.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
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
      pass_options_(
          PassOptions{.dtype = options.dtype, .lora = weights.table().lora()}.On(backend)),
      cache_(config(), options.cache.value_or(options.dtype),
             options.pages > 0 ? options.pages : KvCache::PagesOf(config(), config().n_positions),
             options.sequences, backend.memory()) {
  FOLIO_CHECK(backend.Supports(options.dtype) && options.dtype != Dtype::kBF16,
              "decoding is in float32 or 64");
  FOLIO_CHECK(weights.table().shard().whole(), "a shard has no whole row of logits");
  const PassShape longest = Pass(std::max(cache_.page_tokens(), kFewRows));
  plan_ = PlanBuffers(longest);
  arena_ = Arena(plan_, backend.memory());
  BindBuffers(longest, plan_, arena_, buffers_);
  const int64_t N = longest.T, W = KvCache::PagesOf(config(), capacity());
  const auto tables = cached_plan_.AddMirrored("tables", Dtype::kI32, {N, W});
  const auto places = cached_plan_.AddMirrored("places", Dtype::kI32, {N});
  const auto window_tables = cached_plan_.AddMirrored("window_tables", Dtype::kI32, {N, W});
  const Shape rows = {capacity(), config().head_layout().kv_width()};
  const auto keys = cached_plan_.Add("keys", options.dtype, rows);
  const auto values = cached_plan_.Add("values", options.dtype, rows);
  cached_plan_.Place();
  cached_arena_ = Arena(cached_plan_, backend.memory());
  cached_ = {.pages = cache_.layers(),
             .keys = cached_arena_.Get(cached_plan_, keys),
             .values = cached_arena_.Get(cached_plan_, values)};
  tables_ = cached_arena_.GetMirror(cached_plan_, tables);
  window_tables_ = cached_arena_.GetMirror(cached_plan_, window_tables);
  positions_ = cached_arena_.GetMirror(cached_plan_, places);
  if (!buffers_.sinusoids) return;
  FillSinusoids(buffers_.sinusoids.host);
  buffers_.sinusoids.Send();
}

PassShape Decoder::Pass(int64_t rows) const {
  return {
      .config = config(), .B = 1, .T = rows, .kind = PassKind::kDecode, .options = pass_options_};
}

void Decoder::CopyPage(int32_t from, int32_t to, int64_t rows, bool windows) {
  const int64_t width = config().head_layout().kv_width();
  const Mirror tables = tables_.First({rows, 1}), positions = positions_.First({rows});
  const SequenceView k(cached_.keys.First({rows, width}), 1, rows, 0, width);
  const SequenceView v(cached_.values.First({rows, width}), 1, rows, 0, width);
  const auto fill_tables = [&](int32_t page) {
    std::fill_n(tables.host.host<int32_t>(), rows, page);
    tables.Send();
  };
  std::iota(positions.host.host<int32_t>(), positions.host.host<int32_t>() + rows, 0);
  positions.Send();
  for (int64_t l = 0; l < config().n_layer; ++l) {
    if ((config().layer(l).window > 0) != windows) continue;
    const Tensor& pages = cache_.layers()[static_cast<size_t>(l)];
    fill_tables(from);
    backend_.Run(CacheRead{.pages = pages, .table = tables.device.First({1}), .k = k, .v = v});
    fill_tables(to);
    backend_.Run(CacheWrite{
        .k = k, .v = v, .tables = tables.device, .positions = positions.device, .pages = pages});
  }
}

void Decoder::Grow(CachedSequence& sequence, int64_t rows) {
  const int64_t begun = sequence.size() % cache_.page_tokens();
  if (begun > 0 && sequence.shares_last_page()) {
    // The released page keeps its contents until another page is allocated and written.
    const int32_t from = sequence.pages().back(), window = cache_.window_page(from);
    const int32_t to = sequence.RenewLastPage();
    CopyPage(from, to, begun, /*windows=*/false);
    CopyPage(window, cache_.window_page(to), begun, /*windows=*/true);
  }
  sequence.Reserve(rows);
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
  const int64_t W = tables_.host.dim(1);
  const Mirror tables = tables_.First({N, W}), window_tables = window_tables_.First({N, W});
  const Mirror positions = positions_.First({1, N});
  int64_t n = 0;
  for (const SequencePiece& piece : pieces) {
    const int64_t count = std::ssize(piece.ids), size = piece.sequence->size();
    CopyTokens(piece.ids, buffers_.ids.host.Reshape({N}).Slice(n, n + count), 0,
               config().vocab_size);
    if (buffers_.previous) {
      // The last token so far, if there is one, and then those of the piece.
      int32_t* previous = buffers_.previous.host.host<int32_t>() + n;
      previous[0] = size == 0 ? kElsewhere : piece.sequence->tokens().back();
      std::copy_n(piece.ids.begin(), count - 1, previous + 1);
    }
    for (int64_t i = 0; i < count; ++i, ++n) {
      positions.host.host<int32_t>()[n] = static_cast<int32_t>(size + i);
      std::ranges::copy(piece.sequence->pages(), tables.host.host<int32_t>() + n * W);
      piece.sequence->WindowPages(window_tables.host.host<int32_t>() + n * W);
    }
  }
  buffers_.ids.Send();
  if (buffers_.previous) buffers_.previous.Send();
  for (const Mirror* input : {&positions, &tables, &window_tables}) input->Send();
  CachedRows rows = cached_;
  rows.tables = tables.device;
  rows.window_tables = window_tables.device;
  rows.S = positions.host.host<int32_t>()[N - 1] + 1;
  TransformerForward({.backend = backend_,
                      .config = config(),
                      .lora = weights_.table().lora(),
                      .B = 1,
                      .T = N,
                      .positions = positions.device,
                      .cached = &rows,
                      .residual_norm = pass_options_.preferences.residual_norm},
                     weights_.params(), buffers_);
  for (const SequencePiece& piece : pieces) piece.sequence->Advance(piece.ids);
}

Tensor Decoder::Logits(std::span<const SequencePiece> pieces) {
  const PassContext pass{.backend = backend_, .config = config(), .lora = weights_.table().lora()};
  const Tensor& x = buffers_.acts.norm_f.out;
  const Mirror& logits = buffers_.acts.logits;
  // Rows that follow each other go through the head together.
  int64_t begin = 0, end = 0, made = 0, n = 0;
  const auto flush = [&] {
    if (begin == end) return;
    HeadLogits(pass, weights_.params(), x.Slice(begin, end),
               logits.device.Slice(made, made + end - begin), buffers_.acts.chunk);
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
  logits.Slice(0, made).Fetch();
  return logits.host.Slice(0, made);
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
  const Mirror logits = buffers_.acts.logits.Slice(0, end - begin);
  HeadLogits({.backend = backend_, .config = config(), .lora = weights_.table().lora()},
             weights_.params(), norm().Slice(begin, end), logits.device, buffers_.acts.chunk);
  logits.Fetch();
  return logits.host;
}

Tensor Decoder::Append(std::span<const SequencePiece> pieces) {
  FOLIO_CHECK(!pieces.empty() && RowsOf(pieces) <= kFewRows, "too many rows for one pass");
  Forward(pieces);
  return Logits(pieces);
}

}  // namespace folio
