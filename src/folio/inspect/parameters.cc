#include "folio/inspect/parameters.h"

#include <fmt/format.h>

#include <vector>

#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/weight_init.h"
#include "folio/term/table.h"

namespace folio {
namespace {

// "normal(0, 0.02)", "xavier_uniform", "zero", "one".
std::string InitText(const ParamInfo& info, const GptConfig& config) {
  if (info.init == InitKind::kZero) return "zero";
  if (info.init == InitKind::kOne) return "one";
  if (config.init == "normal") return fmt::format("normal(0, {:.4g})", InitSpread(config, info));
  return info.init == InitKind::kQkvWeight ? config.init : "xavier_uniform";
}

Json SummaryJson(const ModelSummary& summary) {
  return {{"layers", summary.layers},
          {"heads", summary.heads},
          {"kv_heads", summary.kv_heads},
          {"head_size", summary.head_size},
          {"channels", summary.channels},
          {"feed_forward", summary.feed_forward},
          {"context", summary.context},
          {"positions", summary.positions},
          {"vocabulary", summary.vocabulary},
          {"tied", summary.tied},
          {"norm", summary.norm},
          {"activation", summary.activation}};
}

Json TotalJson(const ModelSummary::Total& total) {
  return {{"tensors", total.tensors}, {"parameters", total.parameters}};
}

std::string ParametersText(const ParamTable& table) {
  std::vector<std::vector<std::string>> rows;
  for (const ParamInfo& info : table.params()) {
    rows.push_back({info.name, info.shape.ToString(), WithCommas(info.shape.count()),
                    InitText(info, table.config()), info.decay ? "yes" : "no"});
  }
  const ModelSummary summary(table);
  return SummaryText(summary) + RenderTable({"name", "shape", ">count", "init", "decay"}, rows) +
         fmt::format(
             "\nparameters   {} in {} tensors\n"
             "decayed      {} in {} tensors\n"
             "not decayed  {} in {} tensors\n"
             "as float32   {}\n",
             WithCommas(summary.parameters()), summary.tensors(),
             WithCommas(summary.decayed.parameters), summary.decayed.tensors,
             WithCommas(summary.not_decayed.parameters), summary.not_decayed.tensors,
             HumanBytes(static_cast<double>(summary.float32_bytes())));
}

}  // namespace

std::string SummaryText(const ModelSummary& summary) {
  return fmt::format(
      "layers       {}\n"
      "heads        {} of {} channels{}\n"
      "channels     {}, feed-forward {}\n"
      "context      {} tokens, {} positions\n"
      "vocabulary   {} tokens\n"
      "head         {}\n"
      "norm         {}\n"
      "activation   {}\n\n",
      summary.layers, summary.heads, WithCommas(summary.head_size),
      summary.kv_heads == summary.heads ? ""
                                        : fmt::format(", {} of keys and values", summary.kv_heads),
      WithCommas(summary.channels), WithCommas(summary.feed_forward), WithCommas(summary.context),
      summary.positions, WithCommas(summary.vocabulary),
      summary.tied ? "tied: wte is its matrix too" : "not tied: a matrix of its own",
      summary.norm == "pre" ? "pre: before each sublayer" : "post: after each residual sum",
      summary.activation);
}

Json ParametersJson(const ParamTable& table) {
  const ModelSummary summary(table);
  Json tensors = Json::array();
  for (const ParamInfo& info : table.params()) {
    tensors.push_back({{"name", info.name},
                       {"shape", info.shape.dims()},
                       {"count", info.shape.count()},
                       {"init", InitText(info, table.config())},
                       {"decay", info.decay}});
  }
  return {{"schema", 1},
          {"summary", SummaryJson(summary)},
          {"parameters", summary.parameters()},
          {"bytes", summary.float32_bytes()},
          {"decayed", TotalJson(summary.decayed)},
          {"not_decayed", TotalJson(summary.not_decayed)},
          {"config", ParseJson(GptConfigToJson(table.config()), "config.json")},
          {"tensors", tensors}};
}

std::string DescribeParameters(const ParamTable& table, bool json) {
  return json ? ParametersJson(table).dump(2) + "\n" : ParametersText(table);
}

}  // namespace folio
