#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "folio/formats/found_model.h"
#include "folio/text/tokenizer.h"

namespace folio {

// llm.c's model files: 256 integers of 32 bits, then all parameters, each kind for all blocks
// together, with the weights of Linear layers (out,in) and wte padded with rows of zeros to a
// multiple of 128. Version 3 is float32, version 5 bfloat16. The tokenizer is the
// gpt2_tokenizer.bin beside the file.
// https://github.com/karpathy/llm.c
bool IsLlmc(const std::filesystem::path& path);
FoundModel OpenLlmc(const std::filesystem::path& path, Loading loading);

// Writes the tokenizer too, and zeros for biases that the model leaves out. Throws a kInput Error
// for a model that llm.c cannot express, a tokenizer that such a file cannot hold, and where
// another gpt2_tokenizer.bin is there already.
void SaveLlmc(const std::filesystem::path& path, const ModelToSave& model);

// llm.c's gpt2_tokenizer.bin: 256 integers of 32 bits, then a length of one byte and the bytes of
// each token, which is all that llm.c needs to decode. It is enough for bytes, for characters, and
// for a byte-level BPE whose merges follow from the ids, as GPT-2's do. The fifth integer, which
// llm.c leaves 0 and does not read, is folio's: how many special tokens there are beside the end of
// text, which are the last.

// Null where the tokens are not those of a tokenizer that folio has. Throws a kInput Error where
// the file is not sound.
std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path);

// The contents of the file; empty for a tokenizer that would not come back from it as itself.
std::string LlmcTokenizerBytes(const Tokenizer& tokenizer);

}  // namespace folio
