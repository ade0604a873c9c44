#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace folio {

class GgufFile;  // io/gguf.h

// SuggestedSampling holds what the files of a model say of how its tokens are to be chosen, each
// value as SamplingOptions (infer/sampler.h) has it; what they do not say is empty.
struct SuggestedSampling {
  std::string source =
      {};  // where it is said, for people: "generation_config.json"; "" for nothing
  std::optional<double> temperature = {};  // 0 where the likeliest token is to be taken
  std::optional<int64_t> top_k = {};
  std::optional<double> top_p = {}, min_p = {}, typical = {}, repetition = {};

  bool any() const { return temperature || top_k || top_p || min_p || typical || repetition; }
};

// Reads Hugging Face's generation_config.json in a model directory; nothing where there is none.
// With "do_sample": false the temperature is 0. Values that are no numbers of their range are
// passed over: a model is not refused for them.
SuggestedSampling ReadSuggestedSampling(const std::filesystem::path& dir);

// Reads the keys general.sampling.* of a GGUF file.
SuggestedSampling ReadSuggestedSampling(const GgufFile& file);

}  // namespace folio
