#pragma once

#include <cstdint>
#include <memory>

#include "folio/io/gguf.h"
#include "folio/text/token_roles.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Tokenizers in the header of a GGUF file, as llama.cpp reads them. It has byte-level BPE, with a
// name for the split pattern, of which folio's byte tokenizer is one without merges,
// SentencePiece's BPE of scores ("llama"), and a vocabulary without merges ("rwkv") that takes the
// longest token at each place, which is a character tokenizer where no character's bytes begin like
// another's.

// Null where the file has none. Its chat template comes with it. Throws a kInput Error for one that
// folio does not have.
std::unique_ptr<Tokenizer> ReadGgufTokenizer(const GgufFile& file);

// What the file says of its tokens, whether the tokenizer is one that folio has or not: ids that
// are among its tokens, and the chat template.
TokenRoles ReadGgufRoles(const GgufFile& file);

// Adds a tokenizer to the header of a model with `vocab_size` ids, which it has no more of: as many
// tokens, those that stand
// for nothing named apart. Of `roles`, which are the model's, the beginning and the ends of texts
// are written. Throws a kInput Error where llama.cpp would make other ids of a text, or end a text
// where folio goes on. `tokenizer` may be null.
void AddGgufTokenizer(const Tokenizer* tokenizer, int64_t vocab_size, const TokenRoles& roles,
                      GgufHeader& header);

}  // namespace folio
