#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "folio/text/tokenizer.h"

namespace folio {

// llm.c's gpt2_tokenizer.bin: 256 integers of 32 bits, then a length of one byte and the bytes of
// each token.
inline constexpr char kLlmcTokenizerFile[] = "gpt2_tokenizer.bin";

// Null where the tokens are not those of a byte-level BPE. Throws a kInput Error where the file is
// not sound.
std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path);

// The contents of the file; empty for a tokenizer that would not come back from it as itself.
std::string LlmcTokenizerBytes(const Tokenizer& tokenizer);

}  // namespace folio
