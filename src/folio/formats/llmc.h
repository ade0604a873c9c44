#pragma once

#include <filesystem>

#include "folio/formats/model_formats.h"

namespace folio {

// llm.c's model files: 256 integers of 32 bits, then all parameters, each kind for all blocks
// together, with the weights of Linear layers (out,in) and wte padded with rows of zeros to a
// multiple of 128. Version 3 is float32, version 5 bfloat16. The tokenizer is the
// gpt2_tokenizer.bin beside the file (llmc_tokenizer.h).
// https://github.com/karpathy/llm.c
bool IsLlmc(const std::filesystem::path& path);
FoundModel OpenLlmc(const std::filesystem::path& path, Loading loading);

// Writes the tokenizer too, and zeros for biases that the model leaves out. Throws a kInput Error
// for a model that llm.c cannot express, a tokenizer that such a file cannot hold, and where
// another gpt2_tokenizer.bin is there already.
void SaveLlmc(const std::filesystem::path& path, const ModelToSave& model);

}  // namespace folio
