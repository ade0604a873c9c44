#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "folio/formats/model_formats.h"
#include "folio/io/gguf.h"
#include "folio/model/config.h"
#include "folio/text/tokenizer.h"

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

// Tokenizers in the header of a GGUF file, as llama.cpp reads them. It has byte-level BPE with
// GPT-2's split pattern, of which folio's byte tokenizer is one without merges, and a vocabulary
// without merges ("rwkv") that takes the longest token at each place, which is a character
// tokenizer where no character's bytes begin like another's.

// Null where the file has none. Throws a kInput Error for one that folio does not have.
std::unique_ptr<Tokenizer> ReadGgufTokenizer(const GgufFile& file);

// Adds the tokenizer of a model to a header: as many tokens as the model has ids, those that stand
// for nothing named apart. Throws a kInput Error where llama.cpp would make other ids of a text, or
// end a text where folio goes on. `tokenizer` may be null.
void AddGgufTokenizer(const Tokenizer* tokenizer, const GptConfig& config, GgufHeader& header);

}  // namespace folio
