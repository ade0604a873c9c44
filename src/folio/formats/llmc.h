#pragma once

#include <filesystem>

#include "folio/formats/model_formats.h"

namespace folio {

// llm.c's model files: 256 integers of 32 bits, then all parameters, each kind for all blocks
// together, with the weights of Linear layers (out,in) and wte padded with rows of zeros to a
// multiple of 128. Version 3 is float32, version 5 bfloat16. The tokenizer is the
// gpt2_tokenizer.bin beside the file: the bytes of each token, which llm.c needs to decode and
// which are enough for a byte-level BPE whose merges follow from the ids, as GPT-2's do.
// https://github.com/karpathy/llm.c
bool IsLlmc(const std::filesystem::path& path);
FoundModel OpenLlmc(const std::filesystem::path& path, Loading loading);

// Writes the tokenizer too if such a file can hold it. Throws a kInput Error for
// a model that llm.c cannot express and where another gpt2_tokenizer.bin is there already.
void SaveLlmc(const std::filesystem::path& path, const ModelToSave& model);

}  // namespace folio
