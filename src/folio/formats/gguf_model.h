#pragma once

#include <filesystem>
#include <vector>

#include "folio/formats/model_formats.h"

namespace folio {

// GPT-2 models as llama.cpp has them: one GGUF file (io/gguf.h) of the architecture "gpt2".
// Linear layers lie as (out,in) there, and the head's matrix may be missing, or repeat the
// embeddings, where it is tied to them.
FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading);

// Matrices become model.dtype: F32, F16, BF16, Q8_0 or Q4_0; the others stay F32. Biases that the
// model leaves out are written as zeros, which other programs ask for; a head that is tied to the
// embeddings is not written.
void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model);

std::vector<ListedTensor> ListGgufTensors(const std::filesystem::path& path);

}  // namespace folio
