#include "folio/bench/describe_steps.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/tensor/dtype.h"
#include "folio/term/table.h"
#include "folio/train/plan.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

struct Unit {
  std::string_view name;
  double value;
};

// A number of at least 0 and one of the units behind it; or NaN.
double ParseWithUnit(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || !std::isfinite(number) || number < 0) return std::nan("");
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (rest == unit.name) return number * unit.value;
  }
  return number == 0 && rest.empty() ? 0 : std::nan("");
}

std::string StepSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string StepsText(const StepPlan& plan) {
  const ParamTable table(plan.config, plan.pass.lora);
  const NetworkRates& network = plan.rows.front().network;
  std::string text = fmt::format(
      "model    {}, {} parameters, {}\n"
      "batch    {} x {} tokens in a micro-batch; gradients {}are sent as {}\n"
      "rank     {}/s of forward and backward, {}/s of optimizer, {}/s of adding up ({})\n"
      "network  {} from rank to rank, {} for each message\n\n",
      plan.model, HumanCount(static_cast<double>(table.parameters())),
      DtypeSetting(plan.pass.dtype), plan.B, plan.T,
      plan.reduce_every > 1 ? fmt::format("of {} in a row ", plan.reduce_every) : "",
      DtypeSetting(plan.reduce), HumanFlops(plan.rank.flops_per_second),
      HumanBytes(plan.rank.memory_bytes_per_second), HumanBytes(plan.rank.sum_bytes_per_second),
      plan.rates_from, StepSeconds(network.latency), StepSeconds(network.seconds_per_message));
  std::vector<std::vector<std::string>> rows;
  for (const StepPlan::Row& row : plan.rows) {
    const StepPrediction& step = row.step;
    const bool alone = row.ranks == 1;
    rows.push_back(
        {fmt::format("{}", row.ranks), alone ? "-" : HumanBits(row.network.bits_per_second),
         fmt::format("{}", row.grad_accumulation / row.ranks), StepSeconds(step.seconds),
         WithCommas(static_cast<int64_t>(step.tokens_per_second())),
         fmt::format("{:.1f}%", step.efficiency() * 100),
         alone ? "-" : fmt::format("{:.0f}%", step.hidden() * 100), HumanBytes(step.bytes_sent),
         step.memory == UINT64_MAX ? "too much" : HumanBytes(static_cast<double>(step.memory)),
         StepBoundName(step.bound)});
  }
  text += RenderTable({">ranks", ">network", ">micro-batches", ">step", ">tokens/s", ">efficiency",
                       ">hidden", ">sent", ">memory", "bound by"},
                      rows);
  return text +
         "\nmicro-batches, sent and memory are those of one rank, in a step. Efficiency is the "
         "share\nof a step in which a rank computes, hidden the share of its messages' time in "
         "which it\ncomputes too. Bound by compute: messages cost less than a tenth; network: "
         "bytes;\nmessages: their number and latency; sums: adding up gradients.\n";
}

Json ToJson(const StepPlan::Row& row) {
  const StepPrediction& step = row.step;
  Json json = {{"ranks", row.ranks},
               {"grad_accumulation", row.grad_accumulation},
               {"seconds_per_step", step.seconds},
               {"tokens_per_step", step.tokens},
               {"tokens_per_second", step.tokens_per_second()},
               {"flops_per_step", step.flops},
               {"forward_seconds", step.forward},
               {"backward_seconds", step.backward},
               {"optimizer_seconds", step.optimizer},
               {"efficiency", step.efficiency()},
               {"bound", StepBoundName(step.bound)}};
  if (step.memory != UINT64_MAX) json["peak_bytes"] = step.memory;
  if (row.ranks == 1) return json;
  // No number stands for a network without an end to it.
  if (std::isfinite(row.network.bits_per_second)) {
    json["network_bits_per_second"] = row.network.bits_per_second;
  }
  json["communication"] = {{"bytes_sent_per_step", step.bytes_sent},
                           {"reduce_bytes_per_micro_batch", step.reduce_bytes},
                           {"gather_bytes_per_step", step.gather_bytes},
                           {"messages_per_step", step.messages},
                           {"seconds_per_step", step.communication},
                           {"seconds_waited_per_step", step.waited},
                           {"thread_seconds_per_step", step.thread},
                           {"overlap", step.hidden()}};
  return json;
}

std::string StepsJson(const StepPlan& plan) {
  const NetworkRates& network = plan.rows.front().network;
  Json json = {{"schema", 1},
               {"model", plan.model},
               {"parameters", ParamTable(plan.config, plan.pass.lora).parameters()},
               {"dtype", DtypeSetting(plan.pass.dtype)},
               {"reduce_every", plan.reduce_every},
               {"reduce_dtype", DtypeSetting(plan.reduce)},
               {"recompute", plan.pass.recompute},
               {"batch", plan.B},
               {"context", plan.T},
               {"rank",
                {{"flops_per_second", plan.rank.flops_per_second},
                 {"memory_bytes_per_second", plan.rank.memory_bytes_per_second},
                 {"sum_bytes_per_second", plan.rank.sum_bytes_per_second},
                 {"threads", plan.rank.threads},
                 {"from", plan.rates_from}}},
               {"latency_seconds", network.latency},
               {"seconds_per_message", network.seconds_per_message},
               {"rows", Json::array()}};
  for (const StepPlan::Row& row : plan.rows) json["rows"].push_back(ToJson(row));
  return json.dump(2) + "\n";
}

}  // namespace

double ParseBitsPerSecond(const std::string& text, const std::string& flag) {
  static constexpr Unit kUnits[] = {
      {"bit", 1},   {"Kbit", 1e3},   {"Mbit", 1e6},   {"Gbit", 1e9},   {"Tbit", 1e12},
      {"bit/s", 1}, {"Kbit/s", 1e3}, {"Mbit/s", 1e6}, {"Gbit/s", 1e9}, {"Tbit/s", 1e12}};
  const double bits = ParseWithUnit(text, kUnits);
  if (bits > 0) return bits;
  throw UsageError(fmt::format("{}: '{}' is no speed of a network", flag, text),
                   "a number above 0 with bit, Kbit, Mbit, Gbit or Tbit, a second",
                   fmt::format("for example {} 10Gbit,100Gbit", flag));
}

double ParseShortTime(const std::string& text, const std::string& flag) {
  static constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const double seconds = ParseWithUnit(text, kUnits);
  if (seconds >= 0) return seconds;
  throw UsageError(fmt::format("{}: '{}' is no time", flag, text), "a number with ns, us, ms or s",
                   fmt::format("for example {} 20us", flag));
}

std::string HumanBits(double bits_per_second) {
  const char* unit = "bit/s";
  for (const auto& [value, name] : {std::pair{1e12, "Tbit/s"}, std::pair{1e9, "Gbit/s"},
                                    std::pair{1e6, "Mbit/s"}, std::pair{1e3, "Kbit/s"}}) {
    if (bits_per_second < value) continue;
    bits_per_second /= value;
    unit = name;
    break;
  }
  return fmt::format("{:.4g} {}", bits_per_second, unit);
}

std::string DescribeSteps(const StepPlan& plan, bool json) {
  return json ? StepsJson(plan) : StepsText(plan);
}

}  // namespace folio
