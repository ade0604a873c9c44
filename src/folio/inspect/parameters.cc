#include "folio/inspect/parameters.h"

#include <fmt/format.h>

#include <vector>

#include "folio/base/strings.h"
#include "folio/io/json.h"
#include "folio/model/config_json.h"
#include "folio/model/params.h"
#include "folio/model/weight_init.h"
#include "folio/term/table.h"

namespace folio {
namespace {

constexpr int64_t kBytesOfFloat = 4;

struct Total {
  int64_t tensors = 0, parameters = 0;
};

Total TotalOf(const ParamTable& table, bool decay) {
  Total total;
  for (const ParamInfo& info : table.params()) {
    if (info.decay != decay) continue;
    ++total.tensors;
    total.parameters += info.shape.count();
  }
  return total;
}

// "normal(0, 0.02)", "xavier_uniform", "zero", "one".
std::string InitText(const ParamInfo& info, const GptConfig& config) {
  if (info.init == InitKind::kZero) return "zero";
  if (info.init == InitKind::kOne) return "one";
  if (config.init == "normal") return fmt::format("normal(0, {:.4g})", InitSpread(config, info));
  return info.init == InitKind::kQkvWeight ? config.init : "xavier_uniform";
}

Json SummaryJson(const GptConfig& config) {
  return {{"layers", config.n_layer},
          {"heads", config.n_head},
          {"head_size", config.head_size()},
          {"channels", config.n_embd},
          {"feed_forward", config.inner()},
          {"context", config.n_positions},
          {"positions", config.position_embedding},
          {"vocabulary", config.vocab_size},
          {"tied", config.tie_word_embeddings},
          {"norm", config.norm_position},
          {"activation", config.activation_function}};
}

std::string ParametersText(const GptConfig& config, const ParamTable& table) {
  std::vector<std::vector<std::string>> rows;
  for (const ParamInfo& info : table.params()) {
    rows.push_back({info.name, info.shape.ToString(), WithCommas(info.shape.count()),
                    InitText(info, config), info.decay ? "yes" : "no"});
  }
  const Total decayed = TotalOf(table, true), rest = TotalOf(table, false);
  const int64_t N = table.parameters();
  return SummaryText(config) + RenderTable({"name", "shape", ">count", "init", "decay"}, rows) +
         fmt::format(
             "\nparameters   {} in {} tensors\n"
             "decayed      {} in {} tensors\n"
             "not decayed  {} in {} tensors\n"
             "as float32   {}\n",
             WithCommas(N), table.params().size(), WithCommas(decayed.parameters), decayed.tensors,
             WithCommas(rest.parameters), rest.tensors,
             HumanBytes(static_cast<double>(N * kBytesOfFloat)));
}

}  // namespace

std::string SummaryText(const GptConfig& config) {
  const char* const norm =
      config.pre_norm() ? "pre: before each sublayer" : "post: after each residual sum";
  return fmt::format(
      "layers       {}\n"
      "heads        {} of {} channels\n"
      "channels     {}, feed-forward {}\n"
      "context      {} tokens, {} positions\n"
      "vocabulary   {} tokens\n"
      "head         {}\n"
      "norm         {}\n"
      "activation   {}\n\n",
      config.n_layer, config.n_head, WithCommas(config.head_size()), WithCommas(config.n_embd),
      WithCommas(config.inner()), WithCommas(config.n_positions), config.position_embedding,
      WithCommas(config.vocab_size),
      config.tie_word_embeddings ? "tied: wte is its matrix too" : "not tied: a matrix of its own",
      norm, config.activation_function);
}

Json ParametersJson(const GptConfig& config) {
  const ParamTable table(config);
  Json tensors = Json::array();
  for (const ParamInfo& info : table.params()) {
    tensors.push_back({{"name", info.name},
                       {"shape", info.shape.dims()},
                       {"count", info.shape.count()},
                       {"init", InitText(info, config)},
                       {"decay", info.decay}});
  }
  const auto total = [&](bool decay) {
    const Total sum = TotalOf(table, decay);
    return Json{{"tensors", sum.tensors}, {"parameters", sum.parameters}};
  };
  return {{"schema", 1},
          {"summary", SummaryJson(config)},
          {"parameters", table.parameters()},
          {"bytes", table.parameters() * kBytesOfFloat},
          {"decayed", total(true)},
          {"not_decayed", total(false)},
          {"config", ParseJson(GptConfigToJson(config), "config.json")},
          {"tensors", tensors}};
}

std::string DescribeParameters(const GptConfig& config, bool json) {
  return json ? ParametersJson(config).dump(2) + "\n" : ParametersText(config, ParamTable(config));
}

}  // namespace folio
