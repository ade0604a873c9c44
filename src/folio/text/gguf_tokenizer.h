#pragma once

#include <cstdint>
#include <memory>

#include "folio/io/gguf.h"
#include "folio/text/token_roles.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Tokenizers in the header of a GGUF file, with llama.cpp's meaning. Supported are: byte-level BPE,
// with a name for the split pattern (folio's byte tokenizer is one without merges); SentencePiece's
// BPE by scores ("llama"); and a vocabulary without merges ("rwkv") that takes the longest token at
// each place, which is a character tokenizer if no character's bytes begin like another's.

// Null if the file has none. Includes its chat template. Throws a kInput Error for a tokenizer that
// folio does not support.
std::unique_ptr<Tokenizer> ReadGgufTokenizer(const GgufFile& file);

// The file's statements about its tokens, even if folio does not support the tokenizer: ids that
// exist, and the chat template.
TokenRoles ReadGgufRoles(const GgufFile& file);

// Adds a tokenizer to the header of a model with `vocab_size` ids, at least as many as it has
// tokens: as many tokens, with separate names for unused ones. `roles`, which belong to the model,
// give the begin and the ends of texts. Throws a kInput Error if llama.cpp would encode a text
// differently, or end a text where folio continues. `tokenizer` may be null.
void AddGgufTokenizer(const Tokenizer* tokenizer, int64_t vocab_size, const TokenRoles& roles,
                      GgufHeader& header);

}  // namespace folio
