#include "folio/bench/generation.h"

#include <algorithm>
#include <memory>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/math.h"
#include "folio/bench/memory_pass.h"
#include "folio/model/decoder.h"
#include "folio/model/head_layout.h"

namespace folio {
namespace {

// Bytes of the matrices that every token goes through: of the embeddings it looks up a row, unless
// they are the head too.
double WeightBytes(const GptWeights& weights) {
  double bytes = 0;
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const ParamKind kind = weights.table().params()[i].kind;
    if (kind == ParamKind::kEmbedding) continue;
    bytes += static_cast<double>(weights.tensors()[i].bytes());
  }
  return bytes;
}

double CacheBytes(const GptConfig& config, Dtype dtype, int64_t position) {
  return static_cast<double>(
      DtypeBytes(dtype, 2 * config.n_layer * config.head_layout().kv_width() * position));
}

// Any tokens do.
std::vector<int32_t> Tokens(const GptConfig& config, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * 7919 + 1) % static_cast<size_t>(config.vocab_size));
  }
  return ids;
}

// Runs rounds of measurements.
class Rounds {
 public:
  Rounds(Backend& backend, const GptWeights& weights, const BenchGenerateOptions& options)
      : P_(weights.config().n_positions),
        ids_(Tokens(weights.config(), P_)),
        read_floats_(static_cast<int64_t>(WeightBytes(weights)) / int64_t{sizeof(float)} + 1),
        memory_(std::make_unique<float[]>(static_cast<size_t>(read_floats_))),
        decoder_(backend, weights,
                 {.cache = options.cache, .pages = Pages(weights.config(), options)}) {}

  void Run(GenerationTimings& to) {
    to.read.seconds.push_back(SecondsOf([&] { ReadAll(memory_.get(), read_floats_); }));
    TimePrompt(to);
    for (TokenTiming& timing : to.tokens) TimeTokens(timing);
    for (BatchTiming& timing : to.batches) TimeBatch(timing);
  }

 private:
  static int64_t Pages(const GptConfig& config, const BenchGenerateOptions& options) {
    int64_t most = 1;
    for (const int64_t sequences : options.batches) most = std::max(most, sequences);
    return KvCache::PagesOf(config, config.n_positions) + most;
  }

  std::span<const int32_t> First(int64_t count) const {
    return std::span(ids_).first(static_cast<size_t>(count));
  }

  void TimePrompt(GenerationTimings& to) {
    CachedSequence text(decoder_.cache());
    to.prompt_seconds.push_back(SecondsOf([&] { decoder_.Append(text, First(to.prompt_tokens)); }));
  }

  void TimeTokens(TokenTiming& timing) {
    constexpr int64_t kTokens = 8;
    CachedSequence text(decoder_.cache());
    text.Recall(First(timing.position));
    decoder_.Read(text, First(timing.position).subspan(static_cast<size_t>(text.size())));
    for (int64_t i = 0; i < kTokens && text.size() < P_; ++i) {
      timing.seconds.push_back(SecondsOf([&] { decoder_.Append(text, First(1)); }));
    }
  }

  void TimeBatch(BatchTiming& timing) {
    constexpr int64_t kBehind = 10, kSteps = 4;
    std::vector<CachedSequence> texts;
    std::vector<SequencePiece> pieces;
    for (int64_t i = 0; i < timing.sequences; ++i) {
      texts.emplace_back(decoder_.cache());
      decoder_.Read(texts.back(), First(std::min(kBehind, P_ - 1)));
    }
    for (CachedSequence& text : texts) pieces.push_back({&text, First(1)});
    for (int64_t i = 0; i < kSteps && texts[0].size() < P_; ++i) {
      timing.seconds.push_back(SecondsOf([&] { decoder_.Append(pieces); }));
    }
  }

  int64_t P_;
  std::vector<int32_t> ids_;
  int64_t read_floats_;
  std::unique_ptr<float[]> memory_;
  Decoder decoder_;
};

}  // namespace

double TokenTiming::bytes_per_second() const {
  return bytes / Median(seconds);
}

double BatchTiming::tokens_per_second() const {
  return static_cast<double>(sequences) / Median(seconds);
}

GenerationTimings MeasureGeneration(Backend& backend, const GptWeights& weights,
                                    const BenchGenerateOptions& options) {
  constexpr size_t kFewestRounds = 3;
  const GptConfig& config = weights.config();
  GenerationTimings timings{.cache = options.cache.value_or(Dtype::kF32),
                            .prompt_tokens = std::min(options.prompt_tokens, config.n_positions),
                            .weight_bytes = WeightBytes(weights)};
  for (const int64_t position : options.positions) {
    FOLIO_CHECK(position >= 0 && position < config.n_positions, "position outside of the context");
    timings.tokens.push_back(
        {position, timings.weight_bytes + CacheBytes(config, timings.cache, position)});
  }
  for (const int64_t sequences : options.batches) timings.batches.push_back({sequences});
  timings.read = {"read", timings.weight_bytes};
  Rounds rounds(backend, weights, options);
  GenerationTimings warm_up = timings;
  rounds.Run(warm_up);
  const double begin = SteadySeconds();
  while (SteadySeconds() - begin < options.seconds ||
         timings.prompt_seconds.size() < kFewestRounds) {
    rounds.Run(timings);
  }
  return timings;
}

}  // namespace folio
