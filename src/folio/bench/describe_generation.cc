#include <fmt/format.h>

#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/describe.h"
#include "folio/io/json.h"
#include "folio/term/table.h"

namespace folio {
namespace {

std::string GenerationText(const std::string& model, const Backend& backend,
                           const std::string& dtype, double load_seconds,
                           const GenerationTimings& timings) {
  const double best = timings.read.bytes_per_second();
  std::string text =
      fmt::format("{}, {}\n{}, {} threads\n\n", model, dtype, backend.description(), Threads());
  std::vector<std::vector<std::string>> rows;
  for (const TokenTiming& timing : timings.tokens) {
    const double seconds = Median(timing.seconds), rate = timing.bytes_per_second();
    rows.push_back({fmt::format("{}", timing.position), fmt::format("{:.2f}", seconds * 1e3),
                    HumanCount(1 / seconds), fmt::format("{:.1f}", rate / 1e9),
                    fmt::format("{:.0f}%", 100 * rate / best)});
  }
  text += RenderTable({">after", ">ms a token", ">tokens/s", ">GB/s", ">of reading"}, rows);
  rows.clear();
  for (const BatchTiming& timing : timings.batches) {
    rows.push_back({fmt::format("{}", timing.sequences),
                    fmt::format("{:.2f}", Median(timing.seconds) * 1e3),
                    HumanCount(timing.tokens_per_second()),
                    fmt::format("{:.1f}x", timing.tokens_per_second() /
                                               timings.batches[0].tokens_per_second())});
  }
  if (!rows.empty()) {
    text += "\n" + RenderTable({">sequences", ">ms a step", ">tokens/s", ">of the first"}, rows);
  }
  const double prompt = Median(timings.prompt_seconds);
  text += fmt::format(
      "\nreading {} of plain memory: {:.1f} GB/s\nprompt of {} tokens: {} to the first token, {} "
      "tokens/s\n",
      HumanBytes(timings.weight_bytes), best / 1e9, timings.prompt_tokens, HumanSeconds(prompt),
      HumanCount(static_cast<double>(timings.prompt_tokens) / prompt));
  if (load_seconds > 0) text += fmt::format("loaded in {}\n", HumanSeconds(load_seconds));
  return text;
}

std::string GenerationJson(const std::string& model, const Backend& backend,
                           const std::string& dtype, double load_seconds,
                           const GenerationTimings& timings) {
  const double best = timings.read.bytes_per_second();
  Json tokens = Json::array(), batches = Json::array();
  for (const TokenTiming& timing : timings.tokens) {
    tokens.push_back({{"position", timing.position},
                      {"ms_per_token", 1e3 * Median(timing.seconds)},
                      {"ms_per_token_min", 1e3 * Percentile(timing.seconds, 0)},
                      {"bytes", timing.bytes},
                      {"bytes_per_second", timing.bytes_per_second()},
                      {"read_share", timing.bytes_per_second() / best}});
  }
  for (const BatchTiming& timing : timings.batches) {
    batches.push_back({{"sequences", timing.sequences},
                       {"ms_per_step", 1e3 * Median(timing.seconds)},
                       {"ms_per_step_min", 1e3 * Percentile(timing.seconds, 0)},
                       {"tokens_per_second", timing.tokens_per_second()}});
  }
  const double prompt = Median(timings.prompt_seconds);
  const Json json = {
      {"schema", 1},
      {"model", model},
      {"dtype", dtype},
      {"cache_dtype", DtypeName(timings.cache)},
      {"backend", backend.name()},
      {"backend_description", backend.description()},
      {"simd", SimdTarget()},
      {"threads", Threads()},
      {"load_seconds", load_seconds > 0 ? Json(load_seconds) : Json()},
      {"weight_bytes", timings.weight_bytes},
      {"read_bytes_per_second", best},
      {"prompt_tokens", timings.prompt_tokens},
      {"prompt_seconds", prompt},
      {"first_token_seconds", prompt},
      {"prompt_tokens_per_second", static_cast<double>(timings.prompt_tokens) / prompt},
      {"tokens", tokens},
      {"batches", batches},
      {"peak_memory_bytes", PeakMemoryBytes()}};
  return json.dump(2) + "\n";
}

}  // namespace

std::string DescribeGeneration(const std::string& model, const Backend& backend,
                               const std::string& dtype, double load_seconds,
                               const GenerationTimings& timings, bool json) {
  return (json ? GenerationJson : GenerationText)(model, backend, dtype, load_seconds, timings);
}

}  // namespace folio
