#pragma once

#include <memory>

#include "folio/io/gguf.h"
#include "folio/model/config.h"
#include "folio/text/tokenizer.h"

namespace folio {

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
