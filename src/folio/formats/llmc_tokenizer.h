#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "folio/text/tokenizer.h"

namespace folio {

// llm.c's gpt2_tokenizer.bin: 256 integers of 32 bits, then a length of one byte and the bytes of
// each token, which is all that llm.c needs to decode. It is enough for bytes, for characters, and
// for a byte-level BPE whose merges follow from the ids, as GPT-2's do. The fifth integer, which
// llm.c leaves 0 and does not read, is folio's: how many special tokens there are beside the end of
// text, which are the last.
inline constexpr char kLlmcTokenizerFile[] = "gpt2_tokenizer.bin";

// Null where the tokens are not those of a tokenizer that folio has. Throws a kInput Error where
// the file is not sound.
std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path);

// The contents of the file; empty for a tokenizer that would not come back from it as itself.
std::string LlmcTokenizerBytes(const Tokenizer& tokenizer);

}  // namespace folio
