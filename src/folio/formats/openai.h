#pragma once

#include <filesystem>

#include "folio/formats/found_model.h"

namespace folio {

// GPT-2 as OpenAI released it: a directory of hparams.json, a TensorFlow checkpoint (model.ckpt, or
// what the file `checkpoint` names) and the tokenizer's encoder.json and vocab.bpe.
// https://github.com/openai/gpt-2
bool IsOpenAiCheckpoint(const std::filesystem::path& path);
FoundModel OpenOpenAiCheckpoint(const std::filesystem::path& path, Loading loading);

}  // namespace folio
