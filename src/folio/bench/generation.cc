#include "folio/bench/generation.h"

#include <algorithm>
#include <memory>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/percentile.h"
#include "folio/bench/memory_pass.h"
#include "folio/model/decoder.h"

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

double CacheBytes(const GptConfig& config, int64_t position) {
  return 2.0 * sizeof(float) * static_cast<double>(config.n_layer * config.n_embd * position);
}

// Any tokens do.
std::vector<int32_t> Tokens(const GptConfig& config, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * 7919 + 1) % static_cast<size_t>(config.vocab_size));
  }
  return ids;
}

}  // namespace

double TokenTiming::bytes_per_second() const {
  return bytes / Median(seconds);
}

GenerationTimings MeasureGeneration(Backend& backend, const GptWeights& weights,
                                    const BenchGenerateOptions& options) {
  constexpr size_t kFewestRounds = 3;
  constexpr int64_t kTokens = 8;  // that are timed at a position
  const GptConfig& config = weights.config();
  const int64_t P = config.n_positions;
  GenerationTimings timings{.prompt_tokens = std::min(options.prompt_tokens, P),
                            .weight_bytes = WeightBytes(weights)};
  for (const int64_t position : options.positions) {
    FOLIO_CHECK(position >= 0 && position < P, "position outside of the context");
    timings.tokens.push_back({position, timings.weight_bytes + CacheBytes(config, position)});
  }
  timings.read = {"read", timings.weight_bytes};
  const auto count = static_cast<int64_t>(timings.weight_bytes) / int64_t{sizeof(float)} + 1;
  const auto memory = std::make_unique<float[]>(static_cast<size_t>(count));
  const std::vector<int32_t> ids = Tokens(config, P);
  const std::span<const int32_t> all(ids);
  Decoder decoder(backend, config, weights.params());
  const auto round = [&](GenerationTimings& to) {
    to.read.seconds.push_back(SecondsOf([&] { ReadAll(memory.get(), count); }));
    decoder.Clear();
    to.prompt_seconds.push_back(
        SecondsOf([&] { decoder.Append(all.first(static_cast<size_t>(timings.prompt_tokens))); }));
    for (TokenTiming& timing : to.tokens) {
      decoder.Clear();
      if (timing.position > 0) decoder.Append(all.first(static_cast<size_t>(timing.position)));
      for (int64_t i = 0; i < kTokens && decoder.size() < P; ++i) {
        const auto next = all.subspan(static_cast<size_t>(decoder.size()), 1);
        timing.seconds.push_back(SecondsOf([&] { decoder.Append(next); }));
      }
    }
  };
  GenerationTimings warm_up = timings;
  round(warm_up);
  const double begin = SteadySeconds();
  while (SteadySeconds() - begin < options.seconds ||
         timings.prompt_seconds.size() < kFewestRounds) {
    round(timings);
  }
  return timings;
}

}  // namespace folio
