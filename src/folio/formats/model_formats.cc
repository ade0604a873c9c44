#include "folio/formats/model_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "folio/base/error.h"
#include "folio/formats/hf_directory.h"
#include "folio/formats/llmc.h"
#include "folio/formats/nanogpt.h"
#include "folio/formats/openai_checkpoint.h"
#include "folio/formats/published_models.h"
#include "folio/io/model_dir.h"

namespace folio {

std::span<const ModelFormat> ModelFormats() {
  static constexpr std::array kFormats = {
      ModelFormat{"llmc", "llm.c model file", IsLlmc, OpenLlmc, SaveLlmc},
      ModelFormat{"openai", "OpenAI's TensorFlow checkpoint", IsOpenAiCheckpoint,
                  OpenOpenAiCheckpoint},
      ModelFormat{"nanogpt", "nanoGPT checkpoint", IsNanoGpt, OpenNanoGpt},
      ModelFormat{"hf", "Hugging Face directory", IsHfDirectory, OpenHfDirectory},
  };
  return kFormats;
}

namespace {

std::filesystem::path Located(const std::filesystem::path& path) {
  std::error_code ignored;
  const PublishedModel* published = FindPublishedModel(path.string());
  if (published != nullptr && !std::filesystem::exists(path, ignored)) {
    return FetchedModelDir(*published);
  }
  RequireTyped(path);
  // Not to be taken for a tokenizer of that name.
  const bool name = path == "bytes" || FindPublishedEncoding(path.string()) != nullptr;
  return name ? "." / path : path;
}

}  // namespace

FoundModel FindModel(const std::filesystem::path& path, Loading loading) {
  const std::filesystem::path at = FindModelDir(Located(path));
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
