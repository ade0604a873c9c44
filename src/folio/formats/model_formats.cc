#include "folio/formats/model_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "folio/base/error.h"
#include "folio/formats/hf_directory.h"
#include "folio/io/model_dir.h"

namespace folio {

std::span<const ModelFormat> ModelFormats() {
  static constexpr std::array kFormats = {
      ModelFormat{"hf", "Hugging Face directory", IsHfDirectory, OpenHfDirectory, SaveHfDirectory},
  };
  return kFormats;
}

FoundModel FindModel(const std::filesystem::path& path, Loading loading) {
  RequireTyped(path);
  const std::filesystem::path at = FindModelDir(path);
  const auto formats = ModelFormats();
  const auto format = std::ranges::find_if(
      formats, [&](const ModelFormat& candidate) { return candidate.recognises(at); });
  if (format == formats.end()) {
    throw InputError(fmt::format("{}: no model here", path.string()),
                     "expected config.json and model.safetensors, or another program's model",
                     "give a run, or the directory of a checkpoint, such as RUN/last or RUN/best");
  }
  FoundModel found = format->open(at, loading);
  found.path = at;
  found.format = format->name;
  return found;
}

}  // namespace folio
