#include "folio/train/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

using Settings = decltype(Preset::settings);

// Settings as they are typed after --set, with spaces between.
Settings Typed(const std::string& text) {
  Settings settings;
  for (const std::string& word : Split(text, ' ')) {
    const size_t equals = word.find('=');
    settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return settings;
}

Preset Gpt2(const std::string& name, const std::string& parameters, int layers, int heads,
            int channels) {
  return {name,
          fmt::format("GPT-2 with {} parameters: {} layers, {} heads, {} channels", parameters,
                      layers, heads, channels),
          Typed(fmt::format("model.vocab_size=50257 model.n_positions=1024 model.n_embd={} "
                            "model.n_layer={} model.n_head={} model.bos_token_id=50256 "
                            "model.eos_token_id=50256 train.batch_size=12 "
                            "train.grad_accumulation=40 train.max_steps=600000 "
                            "train.decay_steps=600000 train.learning_rate=6e-4 train.min_lr=6e-5 "
                            "train.warmup_steps=2000 train.beta1=0.9 train.beta2=0.95 "
                            "train.weight_decay=0.1 train.grad_clip=1 train.eval_every=1000 "
                            "train.eval_batches=200",
                            channels, layers, heads))};
}

// A model of characters whose settings are these but for what `own` says. The data decides how many
// characters there are; tinyshakespeare has 65.
Preset Char(const std::string& name, const std::string& summary, const std::string& own) {
  Preset preset{name, summary,
                Typed("model.vocab_size=65 model.n_layer=4 model.n_head=4 model.n_embd=128 "
                      "model.n_positions=64 model.bias=false model.embd_pdrop=0 model.attn_pdrop=0 "
                      "model.resid_pdrop=0 train.batch_size=12 train.max_steps=2000 "
                      "train.decay_steps=2000 train.learning_rate=1e-3 train.min_lr=1e-4 "
                      "train.warmup_steps=100 train.beta1=0.9 train.beta2=0.99 "
                      "train.weight_decay=0.1 train.grad_clip=1 train.eval_every=250 "
                      "train.eval_batches=20 data.tokenizer=char")};
  if (own.empty()) return preset;
  for (const auto& [key, value] : Typed(own)) {
    const auto found = std::ranges::find(preset.settings, key, &Settings::value_type::first);
    if (found == preset.settings.end()) {
      preset.settings.emplace_back(key, value);
    } else {
      found->second = value;
    }
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
      Char("char-cpu", "characters, trained in a minute on two cores: 4 layers, 128 channels", ""),
      Char("char-gpu", "characters, a larger model: 6 layers, 384 channels, dropout 0.2",
           "model.n_layer=6 model.n_head=6 model.n_embd=384 model.n_positions=256 "
           "model.embd_pdrop=0.2 model.attn_pdrop=0.2 model.resid_pdrop=0.2 train.batch_size=64 "
           "train.max_steps=5000 train.decay_steps=5000 train.eval_batches=200"),
      // A minute on two cores takes it from noise to sentences.
      Char("stories", "characters, for the built-in stories: 4 layers, 128 channels",
           "model.n_positions=128 train.batch_size=8 train.max_steps=3600 train.decay_steps=3600 "
           "train.learning_rate=4e-3 train.eval_every=400"),
      // To see that data and settings are right, before a run that takes longer, and every number
      // of a step on one page: B 2, T 8, C 4, H 2, F 4.
      Char("debug", "characters, trained in a second: 2 layers, 4 channels, to try out",
           "model.n_layer=2 model.n_head=2 model.n_embd=4 model.n_positions=8 train.batch_size=2 "
           "train.max_steps=100 train.decay_steps=100 train.learning_rate=1e-2 train.min_lr=1e-3 "
           "train.warmup_steps=10 train.eval_every=50 train.eval_batches=5 model.n_inner=4"),
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
