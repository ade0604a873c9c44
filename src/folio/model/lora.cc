#include "folio/model/lora.h"

namespace folio {

bool TargetNames(std::string_view target, std::string_view module) {
  return !target.empty() && module.ends_with(target) &&
         (module.size() == target.size() || module[module.size() - target.size() - 1] == '.');
}

const LoraConfig& NoAdapters() {
  static const LoraConfig none;
  return none;
}

bool LoraConfig::Adapts(std::string_view module) const {
  return on() &&
         AnyTarget(targets, [&](std::string_view target) { return TargetNames(target, module); });
}

std::vector<Field> LoraConfig::Fields() {
  return {
      Field{"rank", &rank,
            "train LoRA adapters of this rank and keep the model's weights unchanged; 0 trains all "
            "weights",
            0, 65536}
          .WithFlag("--lora"),
      Field{"alpha", &alpha, "adapters are scaled by alpha / rank; 0 means the rank", 0, 1e6},
      Field{"targets", &targets,
            "layers with an adapter, separated by commas: c_attn, attn.c_proj, c_fc, mlp.c_proj "
            "(c_proj means both), or q, k, v, gate, up if the model has them as separate matrices; "
            "also o and down, the model's own names (q_proj), and all-linear"},
      Field{"dropout", &dropout, "dropout of the adapters' input", 0, 1}.MaxExcluded(),
  };
}

}  // namespace folio
