#include "folio/infer/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/infer/token_probabilities.h"

namespace folio {
namespace {

// The most tokens that a text may have behind a prompt of so many, with a context of P.
int64_t LongestText(int64_t P, int64_t prompt_tokens, const BeamSearchOptions& options) {
  if (prompt_tokens < 1) {
    throw UsageError("the prompt has no tokens", "a text needs at least one");
  }
  if (options.beams < 1 || options.beams > Decoder::kFewRows) {
    throw UsageError(
        fmt::format("beams: {} is not between 1 and {}", options.beams, Decoder::kFewRows),
        "all beams are computed together");
  }
  if (options.n < 1 || options.n > options.beams) {
    throw UsageError(
        fmt::format("beam search: {} texts is not between 1 and {}", options.n, options.beams),
        "it gives at most one text per beam", "use more beams, or fewer texts");
  }
  if (!std::isfinite(options.length_penalty)) {
    throw UsageError(fmt::format("length penalty: {} is not a number", options.length_penalty),
                     "scores are divided by the length to this power");
  }
  if (options.max_tokens < 0) {
    throw UsageError(fmt::format("beam search: negative number of tokens {}", options.max_tokens));
  }
  if (prompt_tokens > P) {
    throw UsageError(fmt::format("the prompt is longer than the context: {} tokens of at most {}",
                                 WithCommas(prompt_tokens), WithCommas(P)),
                     "beam search cannot drop tokens", "shorten the prompt");
  }
  return std::min(options.max_tokens, P - prompt_tokens + 1);
}

int64_t PagesOfSearch(int64_t R, int64_t prompt_tokens, int64_t longest, int64_t beams) {
  const int64_t shared = prompt_tokens / R;
  const int64_t read = prompt_tokens + std::max<int64_t>(longest - 1, 0);  // of a text, at its end
  const int64_t own = CeilDiv(read, R) - shared;
  return std::max<int64_t>(shared + beams * own, 1);
}

double ScoreOf(double log_probability, int64_t tokens, double penalty) {
  if (log_probability == 0) return 0;
  return log_probability / std::pow(static_cast<double>(tokens), penalty);
}

struct Beam {
  CachedSequence sequence;  // prompt and ids
  std::vector<int32_t> ids = {};
  double log_probability = 0;
};

// A beam and a token behind it.
struct Continuation {
  double log_probability = 0;  // of both
  size_t beam = 0;
  int32_t id = 0;
  bool ends = false;
};

bool ComesBefore(const Continuation& a, const Continuation& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
}

class BeamSearcher {
 public:
  BeamSearcher(Decoder& decoder, const BeamSearchOptions& options, int64_t longest)
      : decoder_(decoder), options_(options), longest_(longest) {}

  std::vector<BeamText> Search(std::span<const int32_t> prompt) {
    beams_.push_back({CachedSequence(decoder_.cache())});
    if (longest_ == 0) return {BeamText{}};
    Tensor logits = decoder_.Append(beams_[0].sequence, prompt);
    SortTokens(logits.dim(1));
    for (int64_t tokens = 1;; ++tokens) {
      const std::vector<Continuation> next = Choose(logits, tokens);
      if (next.empty() || tokens == longest_ || Sure(next.front().log_probability, tokens)) break;
      GoOn(next);
      logits = AppendLast();
    }
    if (texts_.empty()) {
      throw UsageError("no token is allowed next", "all tokens are banned", "ban fewer tokens");
    }
    return std::move(texts_);
  }

 private:
  void SortTokens(int64_t V) {
    const std::vector<bool>& usable = options_.usable;
    const int64_t end = usable.empty() ? V : std::min<int64_t>(V, std::ssize(usable));
    for (int32_t id = 0; id < end; ++id) {
      if (!usable.empty() && !usable[static_cast<size_t>(id)]) continue;
      const bool ends = std::ranges::find(options_.stop_tokens, id) != options_.stop_tokens.end();
      (ends ? ends_ : others_).push_back(id);
    }
  }

  // All continuations of a beam that end, and the first `beams` of the others.
  std::vector<Continuation> ContinuationsOf(size_t b, std::span<const float> row) const {
    const auto most = static_cast<size_t>(options_.beams);
    const double log_sum = LogSum(row);
    const auto by = [&](int32_t id, bool ends) {
      const double log_probability = row[static_cast<size_t>(id)] - log_sum;
      return Continuation{beams_[b].log_probability + log_probability, b, id, ends};
    };
    std::vector<Continuation> found;  // a heap with the least likely on top
    for (const int32_t id : others_) {
      const Continuation next = by(id, false);
      if (found.size() == most) {
        if (!ComesBefore(next, found.front())) continue;
        std::ranges::pop_heap(found, ComesBefore);
        found.pop_back();
      }
      found.push_back(next);
      std::ranges::push_heap(found, ComesBefore);
    }
    for (const int32_t id : ends_) found.push_back(by(id, true));
    return found;
  }

  // Returns the continuations of all beams, in order.
  std::vector<Continuation> Continuations(const Tensor& logits) const {
    const int64_t V = logits.dim(1);
    RequireFiniteLogits({logits.host<float>(), beams_.size() * static_cast<size_t>(V)});
    std::vector<std::vector<Continuation>> of_beams(beams_.size());
    ParallelFor(std::ssize(beams_), [&](int64_t b, int) {
      of_beams[static_cast<size_t>(b)] = ContinuationsOf(
          static_cast<size_t>(b), {logits.host<float>() + b * V, static_cast<size_t>(V)});
    });
    std::vector<Continuation> found;
    for (const std::vector<Continuation>& of_beam : of_beams) {
      std::ranges::copy_if(of_beam, std::back_inserter(found),
                           [](const Continuation& c) { return std::isfinite(c.log_probability); });
    }
    std::ranges::sort(found, ComesBefore);
    return found;
  }

  // Returns the next beams, and keeps the texts that have ended. `tokens` is the number of tokens
  // of each, with the new one.
  std::vector<Continuation> Choose(const Tensor& logits, int64_t tokens) {
    const auto most = static_cast<size_t>(options_.beams);
    std::vector<Continuation> next;
    bool ended = false;
    size_t place = 0;
    for (const Continuation& c : Continuations(logits)) {
      const bool first = place++ < most;
      if (c.ends && first) {
        ended = true;
        Keep(c, tokens);
      } else if (!c.ends && next.size() < most) {
        if (tokens == longest_) Keep(c, tokens);
        next.push_back(c);
      }
    }
    if (most == 1 && ended) next.clear();
    return next;
  }

  // Keeps a text that is among the best `n`.
  void Keep(const Continuation& c, int64_t tokens) {
    BeamText text{.ids = beams_[c.beam].ids,
                  .score = ScoreOf(c.log_probability, tokens, options_.length_penalty),
                  .log_probability = c.log_probability,
                  .finished = c.ends};
    if (!c.ends) text.ids.push_back(c.id);
    const auto place = std::ranges::upper_bound(texts_, text.score, std::greater{},
                                                [](const BeamText& t) { return t.score; });
    texts_.insert(place, std::move(text));
    if (std::ssize(texts_) > options_.n) texts_.pop_back();
  }

  // Returns true where no beam of so many tokens, the best of which has this sum, can beat the
  // finished texts.
  bool Sure(double log_probability, int64_t tokens) const {
    if (std::ssize(texts_) < options_.n) return false;
    const int64_t length = options_.length_penalty > 0 ? longest_ : tokens + 1;
    return ScoreOf(log_probability, length, options_.length_penalty) <= texts_.back().score;
  }

  // Replaces the beams by their continuations. Frees the pages of beams without any first, so that
  // there are never more sequences than beams.
  void GoOn(std::span<const Continuation> next) {
    std::vector<int64_t> left(beams_.size(), 0);
    for (const Continuation& c : next) ++left[c.beam];
    for (size_t b = 0; b < beams_.size(); ++b) {
      if (left[b] == 0) beams_[b].sequence.Clear();
    }
    std::vector<Beam> beams;
    beams.reserve(next.size());
    for (const Continuation& c : next) {
      Beam& from = beams_[c.beam];
      const bool last = --left[c.beam] == 0;
      beams.push_back({last ? std::move(from.sequence) : decoder_.Fork(from.sequence),
                       last ? std::move(from.ids) : from.ids, c.log_probability});
      beams.back().ids.push_back(c.id);
    }
    beams_ = std::move(beams);
  }

  // The logits (beams,V) of what follows.
  Tensor AppendLast() {
    std::vector<SequencePiece> pieces;
    for (Beam& beam : beams_)
      pieces.push_back({&beam.sequence, std::span<const int32_t>(beam.ids).last(1)});
    return decoder_.Append(pieces);
  }

  Decoder& decoder_;
  const BeamSearchOptions& options_;
  int64_t longest_;                     // tokens of a text
  std::vector<int32_t> ends_, others_;  // tokens that may be chosen
  std::vector<Beam> beams_;             // the likeliest first
  std::vector<BeamText> texts_;         // the best that have ended, the best first
};

}  // namespace

int64_t BeamSearchPages(const GptConfig& config, int64_t prompt_tokens,
                        const BeamSearchOptions& options) {
  const int64_t longest = LongestText(config.n_positions, prompt_tokens, options);
  return PagesOfSearch(KvCache::PageTokens(config), prompt_tokens, longest, options.beams);
}

std::vector<BeamText> BeamSearch(Decoder& decoder, std::span<const int32_t> prompt,
                                 const BeamSearchOptions& options) {
  const int64_t length = std::ssize(prompt);
  const int64_t longest = LongestText(decoder.capacity(), length, options);
  FOLIO_CHECK(decoder.cache().free_pages() >=
                  PagesOfSearch(decoder.cache().page_tokens(), length, longest, options.beams),
              "the KV cache has too few pages for beam search");
  return BeamSearcher(decoder, options, longest).Search(prompt);
}

}  // namespace folio
