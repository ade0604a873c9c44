#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "folio/io/json.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/tokenizer.h"

namespace folio {

// tokenizer.json in the format of Hugging Face's `tokenizers` library.
//
// A character tokenizer is a WordLevel model over single characters, behind a Split that isolates
// every character. `unk_token` is not in the vocabulary, so that an unknown character is an error
// there too. Special tokens are added tokens. `vocab` has the id of each character.
Json CharTokenizerJson(Json vocab, std::span<const SpecialToken> specials);

// A byte tokenizer is a BPE model without merges over GPT-2's printable names of the 256 bytes,
// behind ByteLevel, with the added special tokens, of which <|endoftext|> is the first.
Json ByteTokenizerJson(std::span<const SpecialToken> specials);

// BpeTokenizer writes these files. All ids are kept, those of special tokens and those that are not
// used too. Only tokenizer.json says the pattern, which unmade tokens are special, and whether
// pretokens are looked up as a whole. The same for the same vocabulary, whatever its name and the
// files that it came from.
std::string TokenizerJson(const BpeVocab& vocab);
// The name of a token in these files.
std::string NameInFiles(const BpeVocab& vocab, int32_t id);
std::string VocabJson(const BpeVocab& vocab);
std::string MergesTxt(const BpeVocab& vocab);

}  // namespace folio
