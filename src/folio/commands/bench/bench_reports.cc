#include "folio/commands/bench/bench_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/ranks/group.h"
#include "folio/tensor/dtype.h"
#include "folio/train/train_cost.h"

namespace folio {
namespace {

// "12,345", a number of things per second.
Value WholeRate(double a_second) {
  return {WithCommas(static_cast<int64_t>(a_second)), a_second};
}

Value GflopsValue(double flops_per_second) {
  return Value::Fixed(flops_per_second, 1, 1e9);
}

// The cells of what reads or writes memory; `title` is that of its name.
std::vector<Cell> CellsOf(const char* title, std::string_view name, const Timing& timing) {
  return {{"name", title, name},
          {"seconds", ">ms", Value::Fixed(timing.median(), 3, 1e-3)},
          {"seconds_min", "", timing.fastest()},
          {"bytes", ">bytes", Value::Bytes(timing.work)},
          {"bytes_per_second", ">GB/s", Value::Fixed(timing.rate(), 1, 1e9)}};
}

// The backend, instruction set and threads, which every report has.
std::vector<Cell> MachineFacts(const Backend& backend) {
  const std::string description(backend.description());
  return {{"backend", "", backend.name()},
          {"backend_description",
           "backend",
           {fmt::format("{}, {} threads", description, Threads()), description}},
          {"simd", "", SimdTarget()},
          {"threads", "", Threads()}};
}

// Returns the cells for people only, with the share.
std::vector<Cell> Shown(std::vector<Cell> cells, const std::string& share) {
  for (Cell& cell : cells) cell.key.clear();
  cells.push_back({"", "share", share});
  return cells;
}

// The comparison with the same training without adapters, or without recomputation.
Cell PlainFact(const BenchTrainOptions& options, const BenchTrainResult& result) {
  const bool lora = options.pass.lora.on();
  Cell fact{lora ? "full_fine_tuning" : "without_recompute", lora ? "adapters" : "recompute", {}};
  if (!result.plain)
    return {"", fact.title, "on; not enough memory to compare with a run without it"};
  const PlainTraining& plain = *result.plain;
  const double seconds = Median(plain.step_seconds), fastest = Percentile(plain.step_seconds, 0);
  const auto planned = static_cast<double>(plain.planned_bytes);
  const double saved = planned - static_cast<double>(result.planned_bytes);
  // Fastest against fastest, as other programs only ever make a step longer.
  const double time_paid = Percentile(result.step_seconds, 0) / fastest - 1;
  fact.value = {
      fmt::format(
          "saves {} of {} planned; time per step {:+.1f}% (without it: {:.3f} ms, fastest {:.3f})",
          HumanBytes(saved), HumanBytes(planned), time_paid * 100, seconds * 1e3, fastest * 1e3),
      Json{{"peak_bytes", plain.planned_bytes},
           {"saved_bytes", static_cast<int64_t>(saved)},
           {"seconds_per_step", seconds},
           {"seconds_per_step_min", fastest},
           {"time_paid", time_paid}}};
  return fact;
}

std::vector<Cell> RankFacts(const BenchTrainOptions& options, const BenchTrainResult& result) {
  const auto a_step = [steps = static_cast<double>(result.step_seconds.size())](auto all) {
    return static_cast<double>(all) / steps;
  };
  const GroupTraffic& traffic = result.traffic;
  const double bytes = a_step(traffic.bytes_sent), seconds = a_step(traffic.seconds),
               waited = a_step(traffic.seconds_waited);
  const std::string transport = options.group->transport();
  return {{"ranks",
           "ranks",
           {fmt::format("{} ({}); per step {:.3f} ms of communication, {} sent by each, {:.3f} ms "
                        "waiting ({:.0f}% overlap)",
                        result.ranks, transport, seconds * 1e3, HumanBytes(bytes), waited * 1e3,
                        result.overlap() * 100),
            result.ranks}},
          {"tensor_parallel", "", options.train.tensor_parallel},
          {"reduce_every", "", options.train.reduce_every},
          {"reduce_dtype", "", options.train.reduce_dtype},
          {"communication", "",
           Json{{"transport", transport},
                {"bytes_sent_per_step", bytes},
                {"seconds_per_step", seconds},
                {"seconds_waited_per_step", waited},
                {"overlap", result.overlap()}}}};
}

std::vector<Cell> FactsOf(const BenchTrainOptions& options, const BenchTrainResult& result) {
  const double seconds = result.seconds_per_step(), fastest = Percentile(result.step_seconds, 0),
               slow = Percentile(result.step_seconds, 0.9);
  std::vector<Cell> facts = {
      {"batch",
       "batch",
       {fmt::format("{} x {} tokens", options.train.batch_size, options.T),
        options.train.batch_size}},
      {"context", "", options.T},
      {"steps", "steps", result.step_seconds.size()},
      {"seconds_per_step",
       "step",
       {fmt::format("{:.3f} ms (fastest {:.3f}, 90% below {:.3f})", seconds * 1e3, fastest * 1e3,
                    slow * 1e3),
        seconds}},
      {"seconds_per_step_min", "", fastest},
      {"seconds_per_step_p90", "", slow},
      {"tokens_per_second", "speed", WholeRate(result.tokens_per_second()).In(" tokens/s")},
      {"seconds_per_token", "", result.seconds_per_token()},
      {"flops_per_step", "", result.flops_per_step},
      {"model_flops_per_second",
       "arithmetic",
       {fmt::format("{:.1f} GFLOP/s, {:.0f}% of {:.1f} GFLOP/s in {} matrix products",
                    result.flops_per_second() / 1e9, result.peak_share() * 100,
                    result.matmul_flops_per_second / 1e9, DtypeSetting(options.pass.dtype)),
        result.flops_per_second()}},
      {"matmul_flops_per_second", "", result.matmul_flops_per_second},
      {"peak_share", "", result.peak_share()},
      {"peak_memory_bytes",
       "memory",
       {fmt::format("{} resident at peak, {} planned", HumanBytes(result.peak_memory_bytes),
                    HumanBytes(result.planned_bytes)),
        result.peak_memory_bytes}},
      {"peak_bytes", "", result.planned_bytes},
      {"last_loss", "", result.last_loss}};
  if (options.train.grad_accumulation > 1) {
    facts.push_back({"grad_accumulation", "", options.train.grad_accumulation});
  }
  if (result.ranks > 1) {
    std::ranges::copy(RankFacts(options, result), std::back_inserter(facts));
  }
  if (options.pass.lora.on() || options.pass.recompute) {
    facts.push_back(PlainFact(options, result));
  }
  if (result.ops.empty()) return facts;
  Json ops = Json::array();
  for (const OpTime& op : result.ops) {
    ops.push_back({{"name", op.name},
                   {"calls", op.calls},
                   {"seconds", op.seconds},
                   {"flops", op.flops},
                   {"bytes", op.bytes}});
  }
  facts.push_back({"ops", "", ops});
  facts.push_back({"seconds_outside_ops", "", result.seconds_outside_ops});
  return facts;
}

// The cost of each batch size beside that of the first.
ReportTable GrowthTable(const std::vector<BenchTrainOptions>& options,
                        const std::vector<BenchTrainResult>& results) {
  const BenchTrainResult& first = results.front();
  ReportTable table{.key = "batches"};
  for (size_t i = 0; i < results.size(); ++i) {
    const BenchTrainResult& result = results[i];
    std::vector<Cell>& row = table.rows.emplace_back(FactsOf(options[i], result));
    for (Cell& cell : row) cell.title.clear();
    const auto bytes = static_cast<double>(result.planned_bytes);
    const std::vector<Cell> shown = {
        {"", ">batch", options[i].train.batch_size},
        {"", ">ms/step", Value::Fixed(result.seconds_per_step(), 3, 1e-3)},
        {"", ">us/token", Value::Fixed(result.seconds_per_token(), 1, 1e-6)},
        {"relative_seconds_per_token", ">relative",
         Value::Fixed(result.seconds_per_token() / first.seconds_per_token(), 2)},
        {"", ">tokens/s", WholeRate(result.tokens_per_second())},
        {"", ">GFLOP/s", Value::Fixed(result.flops_per_second(), 1, 1e9)},
        {"", ">of peak", Value::Percent(result.peak_share())},
        {"", ">planned", Value::Bytes(bytes)},
        {"", ">more", Value::Bytes(bytes - static_cast<double>(first.planned_bytes))},
        {"", ">resident", Value::Bytes(result.peak_memory_bytes)}};
    row.insert(row.end(), shown.begin(), shown.end());
  }
  return table;
}

std::string StepSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::vector<Cell> CellsOf(const StepPlan::Row& row) {
  static constexpr const char* kBounds[] = {"compute", "network", "messages", "sums"};
  const StepPrediction& step = row.step;
  const bool alone = row.ranks == 1, too_much = step.memory == UINT64_MAX;
  // JSON has no number for an infinitely fast network.
  const bool finite = !alone && std::isfinite(row.network.bits_per_second);
  const Json communication = {{"bytes_sent_per_step", step.bytes_sent},
                              {"reduce_bytes_per_micro_batch", step.reduce_bytes},
                              {"gather_bytes_per_step", step.gather_bytes},
                              {"messages_per_step", step.messages},
                              {"seconds_per_step", step.communication},
                              {"seconds_waited_per_step", step.waited},
                              {"thread_seconds_per_step", step.thread},
                              {"overlap", step.hidden()}};
  return {{"ranks", ">ranks", row.ranks},
          {finite ? "network_bits_per_second" : "",
           ">network",
           {alone ? "-" : HumanBits(row.network.bits_per_second), row.network.bits_per_second}},
          {"grad_accumulation",
           ">micro-batches",
           {fmt::format("{}", row.grad_accumulation / row.ranks), row.grad_accumulation}},
          {"seconds_per_step", ">step", {StepSeconds(step.seconds), step.seconds}},
          {"tokens_per_step", "", step.tokens},
          {"tokens_per_second", ">tokens/s", WholeRate(step.tokens_per_second())},
          {"flops_per_step", "", step.flops},
          {"forward_seconds", "", step.forward},
          {"backward_seconds", "", step.backward},
          {"optimizer_seconds", "", step.optimizer},
          {"efficiency", ">efficiency", Value::Percent(step.efficiency(), 1)},
          {"", ">hidden", alone ? "-" : Value::Percent(step.hidden()).text},
          {"", ">sent", Value::Bytes(step.bytes_sent)},
          {too_much ? "" : "peak_bytes", ">memory",
           too_much ? Value("too much") : Value::Bytes(step.memory)},
          {"bound", "bound by", kBounds[static_cast<size_t>(step.bound)]},
          {alone ? "" : "communication", "", communication}};
}

}  // namespace

Report MatmulReport(const Backend& backend, const std::vector<Dtype>& dtypes,
                    const std::vector<MatmulRate>& rates) {
  ReportTable products{.key = "products"};
  std::map<Dtype, double> best;
  for (const auto& [shape, product, dtype, timing] : rates) {
    best[dtype] = std::max(best[dtype], timing.rate());
    products.rows.push_back(
        {{"dtype", "dtype", DtypeSetting(dtype)},
         {"product", "product", product},
         {"N", ">N", shape.N},
         {"I", ">I", shape.I},
         {"O", ">O", shape.O},
         {"seconds", ">ms", Value::Fixed(timing.median(), 3, 1e-3)},
         {"seconds_min", "", timing.fastest()},
         {"flops_per_second", ">GFLOP/s", GflopsValue(timing.rate())},
         {"flops_per_second_max", ">best", GflopsValue(timing.work / timing.fastest())}});
  }
  Json peaks = Json::object(), units = Json::object();
  std::vector<Cell> peak_facts;
  for (const Dtype dtype : dtypes) {
    const std::string name(DtypeSetting(dtype)), unit = backend.ProductUnit(dtype);
    peaks[name] = best[dtype];
    units[name] = unit;
    peak_facts.push_back(
        {"", "peak " + name, fmt::format("{:.1f} GFLOP/s ({})", best[dtype] / 1e9, unit)});
  }
  return {.parts = {{.facts = MachineFacts(backend)}, {.table = products}, {.facts = peak_facts}},
          .data = {{"peak_flops_per_second", peaks}, {"units", units}}};
}

Report AttentionReport(const Backend& backend, const std::vector<AttentionRate>& rates) {
  const auto direction = [](const Timing& timing) {
    return Value(fmt::format("{:.3f}", timing.median() * 1e3),
                 Json{{"seconds", timing.median()},
                      {"seconds_min", timing.fastest()},
                      {"flops", timing.work},
                      {"flops_per_second", timing.rate()}});
  };
  ReportTable runs{.key = "runs"};
  for (const AttentionRate& rate : rates) {
    const AttentionShape& shape = rate.shape;
    const double bytes = static_cast<double>(rate.planned_bytes);
    runs.rows.push_back(
        {{"dtype", "dtype", DtypeSetting(shape.dtype)},
         {"batch", "", shape.B},
         {"context", ">T", shape.T},
         {"heads", "", shape.H},
         {"head_size", "", shape.D},
         {"dropout", "", shape.dropout},
         {"forward", ">forward ms", direction(rate.forward)},
         {"", ">GFLOP/s", GflopsValue(rate.forward.rate())},
         {"backward", ">backward ms", direction(rate.backward)},
         {"", ">GFLOP/s", GflopsValue(rate.backward.rate())},
         {"tokens_per_second", ">tokens/s", WholeRate(rate.tokens_per_second())},
         {"peak_bytes", ">memory", Value::Bytes(rate.planned_bytes)},
         {"", ">bytes/token", Value::Fixed(bytes / static_cast<double>(shape.B * shape.T), 0)}});
  }
  const AttentionShape& shape = rates.front().shape;
  std::vector<Cell> facts = {{"", "shape",
                              fmt::format("{} sequences, {} heads of {} channels, dropout {}",
                                          shape.B, shape.H, shape.D, shape.dropout)}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  return {.parts = {{.facts = facts}, {.table = runs}}};
}

Report RowReport(const Backend& backend, const RowShape& shape, const std::vector<RowRate>& rates) {
  ReportTable operations{.key = "operations"};
  std::map<Dtype, double> copies;
  for (const auto& [operation, dtype, timing] : rates) {
    if (operation == "copy") copies[dtype] = timing.rate();
  }
  for (const auto& [operation, dtype, timing] : rates) {
    std::vector<Cell>& row = operations.rows.emplace_back(CellsOf("operation", operation, timing));
    row.insert(row.begin(), {"dtype", "dtype", DtypeSetting(dtype)});
    row.push_back({"share", ">of copy", Value::Percent(timing.rate() / copies[dtype])});
  }
  std::vector<Cell> facts = {{"rows", "", shape.N},
                             {"channels", "", shape.C},
                             {"head_size", "", shape.D},
                             {"hidden", "", shape.F},
                             {"", "shape",
                              fmt::format("{} rows of {} channels, heads of {}, {} hidden", shape.N,
                                          shape.C, shape.D, shape.F)}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  return {.parts = {{.facts = facts}, {.table = operations}}};
}

Report OptimizerReport(const Backend& backend, int64_t parameters, const OptimizerRates& rates) {
  const double seconds = rates.seconds_per_step(), bytes = rates.bytes_per_step();
  ReportTable passes{.key = "passes"};
  const auto add = [&](const char* name, const Timing& part, const char* best,
                       const Timing& machine) {
    std::vector<Cell>& row = passes.rows.emplace_back(CellsOf("pass", name, part));
    row.push_back({"share", "share",
                   Value::Percent(part.rate() / machine.rate()).In(fmt::format(" of {}", best))});
    row.push_back({"of", "", best});
  };
  add("gradient norm", rates.norm, "read", rates.read);
  add("adamw", rates.adamw, "copy", rates.copy);
  passes.rows.push_back(Shown(CellsOf("pass", "together", {bytes, {seconds}}), ""));
  const std::vector<Cell> read = CellsOf("pass", "read", rates.read),
                          copy = CellsOf("pass", "copy", rates.copy);
  for (const auto& pass : {read, copy}) passes.rows.push_back(Shown(pass, "memory bandwidth"));
  std::vector<Cell> facts = {{"parameters", "parameters", Value::Commas(parameters)},
                             {"seconds_per_step", "", seconds},
                             {"bytes_per_step", "", bytes},
                             {"bytes_per_second", "", bytes / seconds}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  return {.parts = {{.facts = facts}, {.table = passes}},
          .data = {{"machine", Json::array({AsJson(read), AsJson(copy)})}}};
}

Report GenerationReport(const std::string& model, const Backend& backend, const std::string& dtype,
                        double load_seconds, const GenerationTimings& timings) {
  const double best = timings.read.rate();
  ReportTable tokens{.key = "tokens"}, batches{.key = "batches"};
  for (const auto& [position, timing] : timings.tokens) {
    const double seconds = timing.median(), rate = timing.rate();
    tokens.rows.push_back({{"position", ">after", position},
                           {"ms_per_token", ">ms a token", Value::Fixed(1e3 * seconds, 2)},
                           {"ms_per_token_min", "", 1e3 * timing.fastest()},
                           {"", ">tokens/s", Value::Count(1 / seconds)},
                           {"bytes", "", timing.work},
                           {"bytes_per_second", ">GB/s", Value::Fixed(rate, 1, 1e9)},
                           {"read_share", ">of reading", Value::Percent(rate / best)}});
  }
  for (const Timing& timing : timings.batches) {
    const double rate = timing.rate();
    batches.rows.push_back(
        {{"sequences", ">sequences", static_cast<int64_t>(timing.work)},
         {"ms_per_step", ">ms a step", Value::Fixed(1e3 * timing.median(), 2)},
         {"ms_per_step_min", "", 1e3 * timing.fastest()},
         {"tokens_per_second", ">tokens/s", Value::Count(rate)},
         {"", ">of the first", Value::Fixed(rate / timings.batches[0].rate(), 1).In("x")}});
  }
  const double prompt = timings.prompt.median(), prompt_rate = timings.prompt.rate();
  const auto prompt_tokens = static_cast<int64_t>(timings.prompt.work);
  std::vector<Cell> facts = {{"model", "model", {fmt::format("{}, {}", model, dtype), model}},
                             {"dtype", "", dtype},
                             {"cache_dtype", "", DtypeName(timings.cache)}};
  std::ranges::copy(MachineFacts(backend), std::back_inserter(facts));
  std::vector<Cell> others = {
      {"read_bytes_per_second",
       "memory",
       {fmt::format("{} read in turns, at {:.1f} GB/s", HumanBytes(timings.read.work), best / 1e9),
        best}},
      {"weight_bytes", "", timings.read.work},
      {"prompt_tokens",
       "prompt",
       {fmt::format("{} tokens: {} to the first token, {} tokens/s", prompt_tokens,
                    HumanSeconds(prompt), HumanCount(prompt_rate)),
        prompt_tokens}},
      {"prompt_seconds", "", prompt},
      {"first_token_seconds", "", prompt},
      {"prompt_tokens_per_second", "", prompt_rate},
      {"peak_memory_bytes", "", PeakMemoryBytes()},
      {"load_seconds", "", Json()}};
  if (load_seconds > 0) others.back() = {"load_seconds", "loaded in", Value::Seconds(load_seconds)};
  return {.parts = {{.facts = facts}, {.table = tokens}, {.table = batches}, {.facts = others}}};
}

Report TrainingReport(const std::string& model, const Backend& backend,
                      const std::vector<BenchTrainOptions>& options,
                      const std::vector<BenchTrainResult>& results, bool growth) {
  const BenchTrainOptions& first = options.front();
  const TrainFlops flops(first.model, first.T, first.pass.lora);
  const std::string dtype(DtypeSetting(first.pass.dtype));
  const std::string unit = backend.ProductUnit(first.pass.dtype);
  const std::string description(backend.description());
  const int64_t parameters = results.front().parameters;
  Report report{
      .parts = {
          {.facts = {
               {"model",
                "model",
                {fmt::format("{}, {} parameters", model, WithCommas(parameters)), model}},
               {"parameters", "", parameters},
               {"backend",
                "backend",
                {fmt::format("{}: {}", first.train.backend, description), first.train.backend}},
               {"backend_description", "", description},
               {"simd", "", SimdTarget()},
               {"dtype",
                "computing",
                {fmt::format("{} on {}, {} threads", dtype, unit, Threads()), dtype}},
               {"product_unit", "", unit},
               {"threads", "", Threads()},
               {"recompute", "", first.pass.recompute},
               {"lora_rank", "", first.pass.lora.rank},
               {"flops_formula", "counted", {flops.Explanation(), kFlopsFormula}},
               {"matrix_parameters", "", flops.matrix_parameters},
               {"trained_matrix_parameters", "", flops.trained_parameters},
               {"flops_per_token", "", flops.per_token()},
               {"attention_flops_per_token", "", flops.attention_per_token}}}}};
  for (size_t i = 0; i < results.size(); ++i) {
    const BenchTrainResult& result = results[i];
    ReportPart part{.facts = FactsOf(options[i], result)};
    if (growth) {
      for (Cell& fact : part.facts) fact.key.clear();
    }
    report.parts.push_back(std::move(part));
    if (result.ops.empty()) continue;
    report.parts.push_back({.terminal = [&result](const Terminal&) {
      return TimesTable(result.ops) +
             fmt::format("outside of operations: {:.3f} ms\n", result.seconds_outside_ops * 1e3);
    }});
  }
  if (growth) report.parts.push_back({.table = GrowthTable(options, results)});
  return report;
}

Report TokenizerReport(const BenchTokenizerOptions& options,
                       const std::vector<TokenizerTiming>& timings) {
  ReportTable table{.key = "rows"};
  for (const TokenizerTiming& timing : timings) {
    const double seconds = timing.median(), fastest = Percentile(timing.seconds, 0);
    const auto bytes = static_cast<double>(timing.bytes),
               tokens = static_cast<double>(timing.tokens),
               calls = static_cast<double>(timing.calls);
    std::vector<Cell> row = {{"what", "what", TokenizerMeasureName(timing.measure)},
                             {"text", "text", timing.text},
                             {"state", "state", timing.cold ? "cold" : "warm"},
                             {"bytes", "", timing.bytes},
                             {"tokens", "", timing.tokens},
                             {"calls", "", timing.calls},
                             {"runs", "", timing.seconds.size()},
                             {"seconds", "", seconds},
                             {"seconds_min", "", fastest},
                             {"seconds_max", "", Percentile(timing.seconds, 1)}};
    // A number that is not known is left empty.
    const auto add = [&](bool known, const char* key, const char* title, const auto& value) {
      row.push_back(known ? Cell{key, title, value()} : Cell{"", title, ""});
    };
    const bool text = timing.bytes > 0, copied = timing.copy_seconds > 0;
    add(text, "", ">call", [&] { return Value::Bytes(bytes / calls); });
    row.push_back({"threads", ">threads", timing.threads});
    row.push_back({"ns_per_call",
                   ">us/call",
                   {fmt::format("{:.4g}", seconds / calls * 1e6), seconds / calls * 1e9}});
    add(text, "bytes_per_second", ">MB/s", [&] { return Value::Fixed(bytes / seconds, 1, 1e6); });
    add(text, "", ">best", [&] { return Value::Fixed(bytes / fastest, 1, 1e6); });
    add(text, "ns_per_token", ">ns/token", [&] { return Value::Fixed(seconds / tokens * 1e9, 2); });
    add(text, "bytes_per_token", ">bytes/token", [&] { return Value::Fixed(bytes / tokens, 2); });
    add(copied, "memcpy_share", ">of memcpy",
        [&] { return Value::Percent(timing.copy_seconds / seconds, 2); });
    if (copied) row.push_back({"memcpy_bytes_per_second", "", bytes / timing.copy_seconds});
    table.rows.push_back(std::move(row));
  }
  return {.parts = {{.table = table}},
          .data = {{"tokenizer", options.tokenizer},
                   {"threads", Threads()},
                   {"simd", SimdTarget()},
                   {"merges", options.merges}}};
}

Report StepsReport(const StepPlan& plan) {
  const NetworkRates& network = plan.rows.front().network;
  const int64_t parameters = ParamTable(plan.config, plan.pass.lora).parameters();
  const std::string dtype(DtypeSetting(plan.pass.dtype)), reduce(DtypeSetting(plan.reduce));
  const std::vector<Cell> facts = {
      {"model",
       "model",
       {fmt::format("{}, {} parameters, {}", plan.model,
                    HumanCount(static_cast<double>(parameters)), dtype),
        plan.model}},
      {"parameters", "", parameters},
      {"dtype", "", dtype},
      {"batch",
       "batch",
       {fmt::format("{} x {} tokens in a micro-batch; gradients {}are sent as {}", plan.B, plan.T,
                    plan.reduce_every > 1 ? fmt::format("of {} in a row ", plan.reduce_every) : "",
                    reduce),
        plan.B}},
      {"context", "", plan.T},
      {"reduce_every", "", plan.reduce_every},
      {"reduce_dtype", "", reduce},
      {"recompute", "", plan.pass.recompute},
      {"rank",
       "rank",
       {fmt::format("{}/s of forward and backward, {}/s of optimizer, {}/s of adding up ({})",
                    HumanFlops(plan.rank.flops_per_second),
                    HumanBytes(plan.rank.memory_bytes_per_second),
                    HumanBytes(plan.rank.sum_bytes_per_second), plan.rates_from),
        Json{{"flops_per_second", plan.rank.flops_per_second},
             {"memory_bytes_per_second", plan.rank.memory_bytes_per_second},
             {"sum_bytes_per_second", plan.rank.sum_bytes_per_second},
             {"threads", plan.rank.threads},
             {"from", plan.rates_from}}}},
      {"latency_seconds",
       "network",
       {fmt::format("{} from rank to rank, {} for each message", StepSeconds(network.latency),
                    StepSeconds(network.seconds_per_message)),
        network.latency}},
      {"seconds_per_message", "", network.seconds_per_message}};
  ReportTable rows{.key = "rows"};
  for (const StepPlan::Row& row : plan.rows) rows.rows.push_back(CellsOf(row));
  return {.parts = {{.facts = facts},
                    {.table = rows},
                    {.text = "micro-batches, sent and memory are those of one rank, in a step. "
                             "Efficiency is the share of a step in which a rank computes, hidden "
                             "the share of its messages' time in which it computes too. Bound by "
                             "compute: messages cost less than a tenth; network: bytes; messages: "
                             "their number and latency; sums: adding up gradients."}}};
}

}  // namespace folio
