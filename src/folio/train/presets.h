#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace folio {

// A named set of settings: keys "section.name" and their values as they would be typed.
struct Preset {
  std::string name;
  std::string summary;
  std::vector<std::pair<std::string, std::string>> settings;
};

// gpt2, gpt2-medium, gpt2-large and gpt2-xl: the four sizes of A. Radford et al., "Language Models
// are Unsupervised Multitask Learners" (2019). char-cpu and char-gpu: small models of characters,
// with the settings of nanoGPT's two character-level runs. stories: what `make demo` trains. debug:
// the smallest, of a second.
std::span<const Preset> Presets();

// Throws a kUsage Error that names the nearest preset if there is none of this name.
const Preset& FindPreset(const std::string& name);

}  // namespace folio
