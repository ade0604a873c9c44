#include "folio/train/presets.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

Preset Gpt2(const std::string& name, const std::string& parameters, int layers, int heads,
            int channels) {
  return {name,
          fmt::format("GPT-2 with {} parameters: {} layers, {} heads, {} channels", parameters,
                      layers, heads, channels),
          {
              {"model.vocab_size", "50257"},
              {"model.n_positions", "1024"},
              {"model.n_embd", fmt::format("{}", channels)},
              {"model.n_layer", fmt::format("{}", layers)},
              {"model.n_head", fmt::format("{}", heads)},
              {"model.bos_token_id", "50256"},
              {"model.eos_token_id", "50256"},
              {"train.batch_size", "12"},
              {"train.grad_accumulation", "40"},
              {"train.max_steps", "600000"},
              {"train.decay_steps", "600000"},
              {"train.learning_rate", "6e-4"},
              {"train.min_lr", "6e-5"},
              {"train.warmup_steps", "2000"},
              {"train.beta1", "0.9"},
              {"train.beta2", "0.95"},
              {"train.weight_decay", "0.1"},
              {"train.grad_clip", "1"},
              {"train.eval_every", "1000"},
              {"train.eval_batches", "200"},
          }};
}

struct CharSize {
  const char* layers;  // and heads
  const char* channels;
  const char* positions;
  const char* dropout;
  const char* batch;
  const char* steps;
  const char* eval_batches;
};

Preset Char(const std::string& name, const std::string& summary, const CharSize& size) {
  return {name,
          summary,
          {
              {"model.vocab_size", "65"},  // tinyshakespeare's characters; the data decides
              {"model.n_layer", size.layers},
              {"model.n_head", size.layers},
              {"model.n_embd", size.channels},
              {"model.n_positions", size.positions},
              {"model.bias", "false"},
              {"model.embd_pdrop", size.dropout},
              {"model.attn_pdrop", size.dropout},
              {"model.resid_pdrop", size.dropout},
              {"train.batch_size", size.batch},
              {"train.max_steps", size.steps},
              {"train.decay_steps", size.steps},
              {"train.learning_rate", "1e-3"},
              {"train.min_lr", "1e-4"},
              {"train.warmup_steps", "100"},
              {"train.beta1", "0.9"},
              {"train.beta2", "0.99"},
              {"train.weight_decay", "0.1"},
              {"train.grad_clip", "1"},
              {"train.eval_every", "250"},
              {"train.eval_batches", size.eval_batches},
              {"data.tokenizer", "char"},
          }};
}

// A minute on two cores takes it from noise to sentences.
Preset Stories() {
  Preset preset = Char("stories", "characters, for the built-in stories: 4 layers, 128 channels",
                       {"4", "128", "128", "0", "8", "3600", "20"});
  for (auto& [key, value] : preset.settings) {
    if (key == "train.learning_rate") value = "4e-3";
    if (key == "train.eval_every") value = "400";
  }
  return preset;
}

// To see that data and settings are right, before a run that takes longer, and every number of a
// step on one page: B 2, T 8, C 4, H 2, F 4.
Preset Debug() {
  Preset preset = Char("debug", "characters, trained in a second: 2 layers, 4 channels, to try out",
                       {"2", "4", "8", "0", "2", "100", "5"});
  preset.settings.emplace_back("model.n_inner", "4");
  for (auto& [key, value] : preset.settings) {
    if (key == "train.learning_rate") value = "1e-2";
    if (key == "train.min_lr") value = "1e-3";
    if (key == "train.warmup_steps") value = "10";
    if (key == "train.eval_every") value = "50";
  }
  return preset;
}

}  // namespace

std::span<const Preset> Presets() {
  static const std::vector<Preset>& presets = *new std::vector<Preset>{
      Gpt2("gpt2", "124M", 12, 12, 768),
      Gpt2("gpt2-medium", "355M", 24, 16, 1024),
      Gpt2("gpt2-large", "774M", 36, 20, 1280),
      Gpt2("gpt2-xl", "1558M", 48, 25, 1600),
      Char("char-cpu", "characters, trained in a minute on two cores: 4 layers, 128 channels",
           {"4", "128", "64", "0", "12", "2000", "20"}),
      Char("char-gpu", "characters, a larger model: 6 layers, 384 channels, dropout 0.2",
           {"6", "384", "256", "0.2", "64", "5000", "200"}),
      Stories(),
      Debug(),
  };
  return presets;
}

const Preset& FindPreset(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  const std::string nearest = Nearest(name, names);
  throw UsageError(
      fmt::format("there is no preset '{}'", name), "the presets are " + Join(names, ", "),
      nearest.empty() ? "choose one of them" : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace folio
