#include "folio/model/lora.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/model/block.h"

namespace folio {
namespace {

bool Names(std::string_view target, std::string_view module) {
  return !target.empty() && module.ends_with(target) &&
         (module.size() == target.size() || module[module.size() - target.size() - 1] == '.');
}

// Calls visit(target) for each, until it returns true; whether it did.
template <class Visit>
bool AnyTarget(std::string_view targets, const Visit& visit) {
  for (;;) {
    const size_t comma = targets.find(',');
    if (visit(targets.substr(0, comma))) return true;
    if (comma == std::string_view::npos) return false;
    targets.remove_prefix(comma + 1);
  }
}

}  // namespace

const LoraConfig& NoAdapters() {
  static const LoraConfig none;
  return none;
}

bool LoraConfig::Adapts(std::string_view module) const {
  return on() && AnyTarget(targets, [&](std::string_view target) { return Names(target, module); });
}

std::vector<Field> LoraConfig::Fields() {
  return {
      Field{
          "rank", &rank,
          "train adapters of this rank (LoRA) beside the model's weights, which stay as they are; "
          "0 trains the weights",
          0, 65536}
          .WithFlag("--lora"),
      Field{"alpha", &alpha, "what adapters add is multiplied by alpha / rank; 0 means the rank", 0,
            1e6},
      Field{"targets", &targets,
            "layers with an adapter, between commas: c_attn, attn.c_proj, c_fc, mlp.c_proj; c_proj "
            "means both"},
      Field{"dropout", &dropout, "dropout of what the adapters read", 0, 1}.MaxExcluded(),
  };
}

void LoraConfig::Validate(const std::string& where) const {
  if (!on()) return;
  AnyTarget(targets, [&](std::string_view target) {
    if (std::ranges::any_of(kLinearLayers, [&](auto layer) { return Names(target, layer); })) {
      return false;
    }
    throw UsageError(fmt::format("{}: lora.targets names no layer '{}'", where, target), {},
                     fmt::format("the layers of a block are {}", fmt::join(kLinearLayers, ", ")));
  });
}

}  // namespace folio
