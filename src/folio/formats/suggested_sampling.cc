#include "folio/formats/suggested_sampling.h"

#include <cmath>
#include <functional>
#include <string_view>

#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Takes the values that `number` has by their names, those of Hugging Face, and that are in their
// ranges.
SuggestedSampling Suggested(std::string source,
                            const std::function<std::optional<double>(std::string_view)>& number) {
  const auto in = [&](std::string_view name, double low, double high, bool without_low = false) {
    const std::optional<double> value = number(name);
    const bool fits = value && *value >= low && *value <= high && !(without_low && *value == low);
    return fits ? value : std::nullopt;
  };
  SuggestedSampling found;
  found.temperature = in("temperature", 0, 100);
  found.top_p = in("top_p", 0, 1, /*without_low=*/true);
  found.min_p = in("min_p", 0, 1);
  found.typical = in("typical_p", 0, 1, /*without_low=*/true);
  found.repetition = in("repetition_penalty", 0.01, 100);
  if (const std::optional<double> k = in("top_k", 0, 1e9)) {
    if (*k == std::floor(*k)) found.top_k = static_cast<int64_t>(*k);
  }
  if (found.any()) found.source = std::move(source);
  return found;
}

}  // namespace

SuggestedSampling ReadSuggestedSampling(const fs::path& dir) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const fs::path path = dir / kGenerationConfigFile;
  if (!Exists(path)) return {};
  const Json json = ParseJson(ReadFile(path, kMostBytes), path.string());
  if (!json.is_object()) return {};
  SuggestedSampling found = Suggested(kGenerationConfigFile, [&](std::string_view name) {
    const Json* value = json.find(name);
    return value != nullptr && value->is_number() ? std::optional(value->get<double>())
                                                  : std::nullopt;
  });
  const Json* sample = json.find("do_sample");
  if (sample != nullptr && *sample == Json(false)) {
    found.temperature = 0;
    found.source = kGenerationConfigFile;
  }
  return found;
}

SuggestedSampling ReadSuggestedSampling(const GgufFile& file) {
  return Suggested("the GGUF file", [&](std::string_view name) {
    std::string key = "general.sampling.";
    key += name == "temperature" ? "temp" : name == "repetition_penalty" ? "penalty_repeat" : name;
    std::optional<double> value = file.Number(key);
    // float32 in the file: 0.95 is meant, not 0.949999988.
    if (value) value = std::round(*value * 1e6) / 1e6;
    return value;
  });
}

}  // namespace folio
