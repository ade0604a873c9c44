#pragma once

#include <filesystem>
#include <vector>

#include "folio/formats/found_model.h"

namespace folio {

// GPT-2 models as llama.cpp has them: one GGUF file (io/gguf.h) of the architecture "gpt2".
// Linear layers lie as (out,in) there, and the head's matrix may be missing, or repeat the
// embeddings, where it is tied to them.
FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading);

// Matrices become model.dtype, or what llama.cpp's Q4_K_M has them as; the others stay F32. Biases
// that the model leaves out are written as zeros, which other programs ask for; a head that is tied
// to the embeddings is not written.
void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model);

std::vector<ListedTensor> ListGgufTensors(const std::filesystem::path& path);

}  // namespace folio
