#include "folio/bench/describe.h"

#include <fmt/format.h>

#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/io/json.h"
#include "folio/tensor/dtype.h"
#include "folio/term/table.h"
#include "folio/train/plan.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

std::string MatmulsText(const Backend& backend, const std::vector<Dtype>& dtypes,
                        const std::vector<MatmulRate>& rates) {
  std::vector<std::vector<std::string>> rows;
  for (const MatmulRate& rate : rates) {
    const auto& [shape, kind, dtype] = rate.product;
    rows.push_back({std::string(DtypeSetting(dtype)), std::string(MatmulKindName(kind)),
                    fmt::format("{}", shape.N), fmt::format("{}", shape.I),
                    fmt::format("{}", shape.O), fmt::format("{:.3f}", rate.seconds * 1e3),
                    fmt::format("{:.1f}", rate.flops_per_second() / 1e9),
                    fmt::format("{:.1f}", rate.product.flops() / rate.seconds_min / 1e9)});
  }
  std::string text = fmt::format("{}, {} threads\n\n", backend.description(), Threads());
  text += RenderTable({"dtype", "product", ">N", ">I", ">O", ">ms", ">GFLOP/s", ">best"}, rows);
  text += "\n";
  for (const Dtype dtype : dtypes) {
    text += fmt::format("peak {}  {:.1f} GFLOP/s ({})\n", DtypeSetting(dtype),
                        PeakOf(dtype, rates) / 1e9, backend.ProductUnit(dtype));
  }
  return text;
}

std::string MatmulsJson(const Backend& backend, const std::vector<Dtype>& dtypes,
                        const std::vector<MatmulRate>& rates) {
  Json products = Json::array();
  for (const MatmulRate& rate : rates) {
    const MatmulShape& shape = rate.product.shape;
    products.push_back({{"dtype", DtypeSetting(rate.product.dtype)},
                        {"product", MatmulKindName(rate.product.kind)},
                        {"N", shape.N},
                        {"I", shape.I},
                        {"O", shape.O},
                        {"seconds", rate.seconds},
                        {"seconds_min", rate.seconds_min},
                        {"flops_per_second", rate.flops_per_second()},
                        {"flops_per_second_max", rate.product.flops() / rate.seconds_min}});
  }
  Json peaks = Json::object(), units = Json::object();
  for (const Dtype dtype : dtypes) {
    peaks[DtypeSetting(dtype)] = PeakOf(dtype, rates);
    units[DtypeSetting(dtype)] = backend.ProductUnit(dtype);
  }
  const Json json = {{"schema", 1},
                     {"backend", backend.name()},
                     {"backend_description", backend.description()},
                     {"simd", SimdTarget()},
                     {"threads", Threads()},
                     {"peak_flops_per_second", peaks},
                     {"units", units},
                     {"products", products}};
  return json.dump(2) + "\n";
}

Json ToJson(const AttentionTiming& timing) {
  return {{"seconds", Median(timing.seconds)},
          {"seconds_min", Percentile(timing.seconds, 0)},
          {"flops", timing.flops},
          {"flops_per_second", timing.flops_per_second()}};
}

std::string AttentionText(const Backend& backend, const std::vector<AttentionRate>& rates) {
  std::vector<std::vector<std::string>> rows;
  for (const AttentionRate& rate : rates) {
    const double tokens = static_cast<double>(rate.shape.B * rate.shape.T);
    rows.push_back({std::string(DtypeSetting(rate.shape.dtype)), fmt::format("{}", rate.shape.T),
                    fmt::format("{:.3f}", Median(rate.forward.seconds) * 1e3),
                    fmt::format("{:.1f}", rate.forward.flops_per_second() / 1e9),
                    fmt::format("{:.3f}", Median(rate.backward.seconds) * 1e3),
                    fmt::format("{:.1f}", rate.backward.flops_per_second() / 1e9),
                    WithCommas(static_cast<int64_t>(rate.tokens_per_second())),
                    HumanBytes(static_cast<double>(rate.planned_bytes)),
                    fmt::format("{:.0f}", static_cast<double>(rate.planned_bytes) / tokens)});
  }
  const AttentionShape& shape = rates.front().shape;
  std::string text =
      fmt::format("{} sequences, {} heads of {} channels, dropout {}\n{}, {} threads\n\n", shape.B,
                  shape.H, shape.D, shape.dropout, backend.description(), Threads());
  return text + RenderTable({"dtype", ">T", ">forward ms", ">GFLOP/s", ">backward ms", ">GFLOP/s",
                             ">tokens/s", ">memory", ">bytes/token"},
                            rows);
}

std::string AttentionJson(const Backend& backend, const std::vector<AttentionRate>& rates) {
  Json runs = Json::array();
  for (const AttentionRate& rate : rates) {
    runs.push_back({{"dtype", DtypeSetting(rate.shape.dtype)},
                    {"batch", rate.shape.B},
                    {"context", rate.shape.T},
                    {"heads", rate.shape.H},
                    {"head_size", rate.shape.D},
                    {"dropout", rate.shape.dropout},
                    {"forward", ToJson(rate.forward)},
                    {"backward", ToJson(rate.backward)},
                    {"tokens_per_second", rate.tokens_per_second()},
                    {"peak_bytes", rate.planned_bytes}});
  }
  const Json json = {{"schema", 1},
                     {"backend", backend.name()},
                     {"backend_description", backend.description()},
                     {"simd", SimdTarget()},
                     {"threads", Threads()},
                     {"runs", runs}};
  return json.dump(2) + "\n";
}

// A part of the optimizer, and the pass of the machine that is like it.
struct Comparison {
  const MemoryPass& part;
  const MemoryPass& machine;
};

std::vector<Comparison> Comparisons(const OptimizerRates& rates) {
  return {{rates.norm, rates.read}, {rates.adamw, rates.copy}};
}

std::string OptimizerText(const Backend& backend, int64_t parameters, const OptimizerRates& rates) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& name, double seconds, double bytes,
                       const std::string& share) {
    rows.push_back({name, fmt::format("{:.3f}", seconds * 1e3), HumanBytes(bytes),
                    fmt::format("{:.1f}", bytes / seconds / 1e9), share});
  };
  for (const auto& [part, machine] : Comparisons(rates)) {
    row(part.name, Median(part.seconds), part.bytes,
        fmt::format("{:.0f}% of {}", 100 * part.bytes_per_second() / machine.bytes_per_second(),
                    machine.name));
  }
  row("together", rates.seconds_per_step(), rates.bytes_per_step(), "");
  row("read", Median(rates.read.seconds), rates.read.bytes, "what memory does");
  row("copy", Median(rates.copy.seconds), rates.copy.bytes, "what memory does");
  return fmt::format("{} parameters\n{}, {} threads\n\n", WithCommas(parameters),
                     backend.description(), Threads()) +
         RenderTable({"pass", ">ms", ">bytes", ">GB/s", "share"}, rows);
}

Json ToJson(const MemoryPass& pass) {
  return {{"name", pass.name},
          {"seconds", Median(pass.seconds)},
          {"seconds_min", Percentile(pass.seconds, 0)},
          {"bytes", pass.bytes},
          {"bytes_per_second", pass.bytes_per_second()}};
}

std::string OptimizerJson(const Backend& backend, int64_t parameters, const OptimizerRates& rates) {
  Json passes = Json::array();
  for (const auto& [part, machine] : Comparisons(rates)) {
    Json pass = ToJson(part);
    pass["of"] = machine.name;
    pass["share"] = part.bytes_per_second() / machine.bytes_per_second();
    passes.push_back(std::move(pass));
  }
  const Json json = {{"schema", 1},
                     {"parameters", parameters},
                     {"backend", backend.name()},
                     {"backend_description", backend.description()},
                     {"simd", SimdTarget()},
                     {"threads", Threads()},
                     {"seconds_per_step", rates.seconds_per_step()},
                     {"bytes_per_step", rates.bytes_per_step()},
                     {"bytes_per_second", rates.bytes_per_step() / rates.seconds_per_step()},
                     {"passes", passes},
                     {"machine", Json::array({ToJson(rates.read), ToJson(rates.copy)})}};
  return json.dump(2) + "\n";
}

std::string Bytes(uint64_t bytes) {
  return HumanBytes(static_cast<double>(bytes));
}

Json ToJson(const BenchTrainOptions& options, const BenchTrainResult& result) {
  Json json = {{"batch", options.train.batch_size},
               {"context", options.T},
               {"steps", result.step_seconds.size()},
               {"tokens_per_second", result.tokens_per_second()},
               {"seconds_per_token", result.seconds_per_token()},
               {"seconds_per_step", result.seconds_per_step()},
               {"seconds_per_step_min", Percentile(result.step_seconds, 0)},
               {"seconds_per_step_p90", Percentile(result.step_seconds, 0.9)},
               {"flops_per_step", result.flops_per_step},
               {"model_flops_per_second", result.flops_per_second()},
               {"matmul_flops_per_second", result.matmul_flops_per_second},
               {"peak_share", result.peak_share()},
               {"peak_bytes", result.planned_bytes},
               {"peak_memory_bytes", result.peak_memory_bytes},
               {"last_loss", result.last_loss}};
  if (options.train.grad_accumulation > 1) {
    json["grad_accumulation"] = options.train.grad_accumulation;
  }
  if (result.ranks > 1) {
    const double steps = static_cast<double>(result.step_seconds.size());
    json["ranks"] = result.ranks;
    json["tensor_parallel"] = options.train.tensor_parallel;
    json["reduce_every"] = options.train.reduce_every;
    json["reduce_dtype"] = options.train.reduce_dtype;
    json["communication"] = {
        {"transport", options.group->transport()},
        {"bytes_sent_per_step", static_cast<double>(result.traffic.bytes_sent) / steps},
        {"seconds_per_step", result.traffic.seconds / steps},
        {"seconds_waited_per_step", result.traffic.seconds_waited / steps},
        {"overlap", result.overlap()}};
  }
  if (result.plain) {
    const PlainTraining& plain = *result.plain;
    json[options.pass.lora.on() ? "full_fine_tuning" : "without_recompute"] = {
        {"peak_bytes", plain.planned_bytes},
        {"saved_bytes", result.saved_bytes()},
        {"seconds_per_step", Median(plain.step_seconds)},
        {"seconds_per_step_min", Percentile(plain.step_seconds, 0)},
        {"time_paid", result.time_paid()}};
  }
  if (!result.ops.empty()) {
    json["ops"] = Json::array();
    for (const OpTime& op : result.ops) {
      json["ops"].push_back({{"name", op.name},
                             {"calls", op.calls},
                             {"seconds", op.seconds},
                             {"flops", op.flops},
                             {"bytes", op.bytes}});
    }
    json["seconds_outside_ops"] = result.seconds_outside_ops;
  }
  return json;
}

// Beside the same training without adapters, or without recomputation.
std::string PlainLine(const char* name, const BenchTrainResult& result) {
  if (!result.plain) {
    return fmt::format("{:<11} on; memory has no room to compare with a run without\n", name);
  }
  return fmt::format(
      "{:<11} saves {} of {} planned, steps take {:+.1f}% (without: {:.3f} ms, fastest "
      "{:.3f})\n",
      name, HumanBytes(static_cast<double>(result.saved_bytes())),
      Bytes(result.plain->planned_bytes), result.time_paid() * 100,
      Median(result.plain->step_seconds) * 1e3, Percentile(result.plain->step_seconds, 0) * 1e3);
}

std::string ToText(const BenchTrainOptions& options, const BenchTrainResult& result) {
  std::string text = fmt::format(
      "batch       {} x {} tokens\n"
      "steps       {}\n"
      "step        {:.3f} ms (fastest {:.3f}, 90% below {:.3f})\n"
      "speed       {} tokens/s\n"
      "arithmetic  {:.1f} GFLOP/s, {:.0f}% of the {:.1f} of {} matrix products\n"
      "memory      {} resident at most, {} planned\n",
      options.train.batch_size, options.T, result.step_seconds.size(),
      result.seconds_per_step() * 1e3, Percentile(result.step_seconds, 0) * 1e3,
      Percentile(result.step_seconds, 0.9) * 1e3,
      WithCommas(static_cast<int64_t>(result.tokens_per_second())), result.flops_per_second() / 1e9,
      result.peak_share() * 100, result.matmul_flops_per_second / 1e9,
      DtypeSetting(options.pass.dtype), Bytes(result.peak_memory_bytes),
      Bytes(result.planned_bytes));
  if (result.ranks > 1) {
    const double steps = static_cast<double>(result.step_seconds.size());
    text += fmt::format(
        "ranks       {} ({}); of a step {:.3f} ms of messages, {} sent by each, {:.3f} ms waited "
        "({:.0f}% overlap)\n",
        result.ranks, options.group->transport(), result.traffic.seconds / steps * 1e3,
        HumanBytes(static_cast<double>(result.traffic.bytes_sent) / steps),
        result.traffic.seconds_waited / steps * 1e3, result.overlap() * 100);
  }
  if (options.pass.lora.on()) {
    text += PlainLine("adapters", result);
  } else if (options.pass.recompute) {
    text += PlainLine("recompute", result);
  }
  if (!result.ops.empty()) {
    text += "\n" + TimesTable(result.ops);
    text += fmt::format("outside of operations: {:.3f} ms\n", result.seconds_outside_ops * 1e3);
  }
  return text;
}

// How the cost grows from the first batch size to the others.
std::string GrowthTable(const std::vector<BenchTrainOptions>& options,
                        const std::vector<BenchTrainResult>& results) {
  std::vector<std::vector<std::string>> rows;
  const double first = results[0].seconds_per_token();
  for (size_t i = 0; i < results.size(); ++i) {
    const BenchTrainResult& result = results[i];
    const double more_than_first = static_cast<double>(results[i].planned_bytes) -
                                   static_cast<double>(results[0].planned_bytes);
    rows.push_back({fmt::format("{}", options[i].train.batch_size),
                    fmt::format("{:.3f}", result.seconds_per_step() * 1e3),
                    fmt::format("{:.1f}", result.seconds_per_token() * 1e6),
                    fmt::format("{:.2f}", result.seconds_per_token() / first),
                    WithCommas(static_cast<int64_t>(result.tokens_per_second())),
                    fmt::format("{:.1f}", result.flops_per_second() / 1e9),
                    fmt::format("{:.0f}%", result.peak_share() * 100),
                    Bytes(results[i].planned_bytes), HumanBytes(more_than_first),
                    Bytes(results[i].peak_memory_bytes)});
  }
  return RenderTable({">batch", ">ms/step", ">us/token", ">relative", ">tokens/s", ">GFLOP/s",
                      ">of peak", ">planned", ">more", ">resident"},
                     rows);
}

std::string TrainingText(const std::string& model, const Backend& backend,
                         const std::vector<BenchTrainOptions>& options,
                         const std::vector<BenchTrainResult>& results, bool growth) {
  const BenchTrainOptions& first = options.front();
  std::string text = fmt::format(
      "model       {}, {} parameters\n"
      "backend     {}: {}\n"
      "computing   {} on {}, {} threads\n"
      "counted     {}\n",
      model, WithCommas(results[0].parameters), first.train.backend, backend.description(),
      DtypeSetting(first.pass.dtype), backend.ProductUnit(first.pass.dtype), Threads(),
      TrainFlops(first.model, first.T, first.pass.lora).Explanation());
  for (size_t i = 0; i < results.size(); ++i) {
    text += (growth ? "\n" : "") + ToText(options[i], results[i]);
  }
  if (growth) text += "\n" + GrowthTable(options, results);
  return text;
}

std::string TrainingJson(const std::string& model, const Backend& backend,
                         const std::vector<BenchTrainOptions>& options,
                         const std::vector<BenchTrainResult>& results, bool growth) {
  const BenchTrainOptions& first = options.front();
  const TrainFlops flops(first.model, first.T, first.pass.lora);
  Json json = {{"schema", 1},
               {"model", model},
               {"parameters", results[0].parameters},
               {"dtype", DtypeSetting(first.pass.dtype)},
               {"product_unit", backend.ProductUnit(first.pass.dtype)},
               {"recompute", first.pass.recompute},
               {"lora_rank", first.pass.lora.rank},
               {"backend", first.train.backend},
               {"backend_description", backend.description()},
               {"simd", SimdTarget()},
               {"threads", Threads()},
               {"flops_formula", kFlopsFormula},
               {"matrix_parameters", flops.matrix_parameters},
               {"trained_matrix_parameters", flops.trained_parameters},
               {"flops_per_token", flops.per_token()},
               {"attention_flops_per_token", flops.attention_per_token}};
  if (!growth) {
    json.update(ToJson(first, results[0]));
  } else {
    const double seconds = results[0].seconds_per_token();
    json["batches"] = Json::array();
    for (size_t i = 0; i < results.size(); ++i) {
      Json each = ToJson(options[i], results[i]);
      each["relative_seconds_per_token"] = results[i].seconds_per_token() / seconds;
      json["batches"].push_back(std::move(each));
    }
  }
  return json.dump(2) + "\n";
}

std::string TokenizerText(const std::vector<TokenizerTiming>& timings) {
  std::vector<std::vector<std::string>> rows;
  for (const TokenizerTiming& timing : timings) {
    const double seconds = timing.median();
    const double bytes = static_cast<double>(timing.bytes);
    const double tokens = static_cast<double>(timing.tokens);
    const double calls = static_cast<double>(timing.calls);
    const bool text = timing.bytes > 0;
    rows.push_back({std::string(TokenizerMeasureName(timing.measure)), timing.text,
                    timing.cold ? "cold" : "warm", text ? HumanBytes(bytes / calls) : "",
                    fmt::format("{}", timing.threads), fmt::format("{:.4g}", seconds / calls * 1e6),
                    text ? fmt::format("{:.1f}", bytes / seconds / 1e6) : "",
                    text ? fmt::format("{:.1f}", bytes / Percentile(timing.seconds, 0) / 1e6) : "",
                    text ? fmt::format("{:.2f}", seconds / tokens * 1e9) : "",
                    text ? fmt::format("{:.2f}", bytes / tokens) : "",
                    timing.copy_seconds > 0
                        ? fmt::format("{:.2f}%", timing.copy_seconds / seconds * 100)
                        : ""});
  }
  return RenderTable({"what", "text", "state", ">call", ">threads", ">us/call", ">MB/s", ">best",
                      ">ns/token", ">bytes/token", ">of memcpy"},
                     rows);
}

std::string TokenizerJson(const BenchTokenizerOptions& options,
                          const std::vector<TokenizerTiming>& timings) {
  Json json = {{"schema", 1},          {"tokenizer", options.tokenizer}, {"threads", Threads()},
               {"simd", SimdTarget()}, {"merges", options.merges},       {"rows", Json::array()}};
  for (const TokenizerTiming& timing : timings) {
    const double seconds = timing.median();
    Json row = {{"what", TokenizerMeasureName(timing.measure)},
                {"text", timing.text},
                {"state", timing.cold ? "cold" : "warm"},
                {"threads", timing.threads},
                {"calls", timing.calls},
                {"bytes", timing.bytes},
                {"tokens", timing.tokens},
                {"runs", timing.seconds.size()},
                {"seconds", seconds},
                {"seconds_min", Percentile(timing.seconds, 0)},
                {"seconds_max", Percentile(timing.seconds, 1)},
                {"ns_per_call", seconds / static_cast<double>(timing.calls) * 1e9}};
    if (timing.bytes > 0) {
      const double bytes = static_cast<double>(timing.bytes);
      const double tokens = static_cast<double>(timing.tokens);
      row["bytes_per_second"] = bytes / seconds;
      row["ns_per_token"] = seconds / tokens * 1e9;
      row["bytes_per_token"] = bytes / tokens;
    }
    if (timing.copy_seconds > 0) {
      row["memcpy_bytes_per_second"] = static_cast<double>(timing.bytes) / timing.copy_seconds;
      row["memcpy_share"] = timing.copy_seconds / seconds;
    }
    json["rows"].push_back(row);
  }
  return json.dump(2) + "\n";
}

}  // namespace

std::string DescribeMatmuls(const Backend& backend, const std::vector<Dtype>& dtypes,
                            const std::vector<MatmulRate>& rates, bool json) {
  return json ? MatmulsJson(backend, dtypes, rates) : MatmulsText(backend, dtypes, rates);
}

std::string DescribeAttention(const Backend& backend, const std::vector<AttentionRate>& rates,
                              bool json) {
  return json ? AttentionJson(backend, rates) : AttentionText(backend, rates);
}

std::string DescribeOptimizer(const Backend& backend, int64_t parameters,
                              const OptimizerRates& rates, bool json) {
  return json ? OptimizerJson(backend, parameters, rates)
              : OptimizerText(backend, parameters, rates);
}

std::string DescribeTraining(const std::string& model, const Backend& backend,
                             const std::vector<BenchTrainOptions>& options,
                             const std::vector<BenchTrainResult>& results, bool growth, bool json) {
  return json ? TrainingJson(model, backend, options, results, growth)
              : TrainingText(model, backend, options, results, growth);
}

std::string DescribeTokenizerSpeed(const BenchTokenizerOptions& options,
                                   const std::vector<TokenizerTiming>& timings, bool json) {
  return json ? TokenizerJson(options, timings) : TokenizerText(timings);
}

}  // namespace folio
