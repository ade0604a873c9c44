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
// there too. Special tokens are added tokens. `vocab` maps each character to its id.
Json CharTokenizerJson(Json vocab, std::span<const SpecialToken> specials);

// A byte tokenizer is a BPE model without merges over GPT-2's printable names of the 256 bytes,
// behind ByteLevel, with the special tokens as added tokens, <|endoftext|> first.
Json ByteTokenizerJson(std::span<const SpecialToken> specials);

// The files of a BpeTokenizer. All ids are kept, including special and unused tokens. Only
// tokenizer.json stores the pattern, which tokens without merges are special, and whether pretokens
// are looked up as a whole. Equal for equal vocabularies, whatever their name and the files that
// they came from.
std::string TokenizerJson(const BpeVocab& vocab);
// The name of a token in these files.
std::string NameInFiles(const BpeVocab& vocab, int32_t id);
std::string VocabJson(const BpeVocab& vocab);
std::string MergesTxt(const BpeVocab& vocab);

}  // namespace folio
