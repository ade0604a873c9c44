#include "folio/bench/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/strings.h"
#include "folio/bench/operations.h"
#include "folio/io/json.h"
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

Report GenerationReport(const std::string& model, const Backend& backend, const std::string& dtype,
                        double load_seconds, const GenerationTimings& timings) {
  const double best = timings.read.bytes_per_second();
  ReportTable tokens{.key = "tokens"}, batches{.key = "batches"};
  for (const TokenTiming& timing : timings.tokens) {
    const double seconds = Median(timing.seconds), rate = timing.bytes_per_second();
    tokens.rows.push_back({{"position", ">after", timing.position},
                           {"ms_per_token", ">ms a token", Value::Fixed(1e3 * seconds, 2)},
                           {"ms_per_token_min", "", 1e3 * Percentile(timing.seconds, 0)},
                           {"", ">tokens/s", Value::Count(1 / seconds)},
                           {"bytes", "", timing.bytes},
                           {"bytes_per_second", ">GB/s", Value::Fixed(rate, 1, 1e9)},
                           {"read_share", ">of reading", Value::Percent(rate / best)}});
  }
  for (const BatchTiming& timing : timings.batches) {
    const double rate = timing.tokens_per_second();
    batches.rows.push_back(
        {{"sequences", ">sequences", timing.sequences},
         {"ms_per_step", ">ms a step", Value::Fixed(1e3 * Median(timing.seconds), 2)},
         {"ms_per_step_min", "", 1e3 * Percentile(timing.seconds, 0)},
         {"tokens_per_second", ">tokens/s", Value::Count(rate)},
         {"", ">of the first",
          Value::Fixed(rate / timings.batches[0].tokens_per_second(), 1).In("x")}});
  }
  const double prompt = Median(timings.prompt_seconds);
  const double prompt_rate = static_cast<double>(timings.prompt_tokens) / prompt;
  std::vector<Cell> facts = {{"model", "model", {fmt::format("{}, {}", model, dtype), model}},
                             {"dtype", "", dtype},
                             {"cache_dtype", "", DtypeName(timings.cache)}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  std::vector<Cell> others = {
      {"read_bytes_per_second",
       "memory",
       {fmt::format("{} read in turns, at {:.1f} GB/s", HumanBytes(timings.weight_bytes),
                    best / 1e9),
        best}},
      {"weight_bytes", "", timings.weight_bytes},
      {"prompt_tokens",
       "prompt",
       {fmt::format("{} tokens: {} to the first token, {} tokens/s", timings.prompt_tokens,
                    HumanSeconds(prompt), HumanCount(prompt_rate)),
        timings.prompt_tokens}},
      {"prompt_seconds", "", prompt},
      {"first_token_seconds", "", prompt},
      {"prompt_tokens_per_second", "", prompt_rate},
      {"peak_memory_bytes", "", PeakMemoryBytes()},
      {"load_seconds", "", Json()}};
  if (load_seconds > 0) others.back() = {"load_seconds", "loaded in", Value::Seconds(load_seconds)};
  return {.parts = {{.facts = facts}, {.table = tokens}, {.table = batches}, {.facts = others}}};
}

}  // namespace folio
