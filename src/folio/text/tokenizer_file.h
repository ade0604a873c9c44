#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/text/char_tokenizer.h"

namespace folio {

inline constexpr std::string_view kTokenizerFile = "tokenizer.json";
inline constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr std::string_view kVocabFile = "vocab.json";
inline constexpr std::string_view kMergesFile = "merges.txt";
inline constexpr std::string_view kNanochatTokenizerFile = "tokenizer.pkl";
// Older writers of transformers leave special tokens beyond the vocabulary in a file beside these
// two.
inline constexpr std::string_view kAddedTokensFile = "added_tokens.json";
// The files that Tokenizer::Save may write.
inline constexpr std::array<std::string_view, 4> kTokenizerFiles = {
    kTokenizerFile, kTokenizerConfigFile, kVocabFile, kMergesFile};

// tokenizer.json in the format of Hugging Face's `tokenizers` library.
//
// A character tokenizer is a WordLevel model over single characters, behind a Split that isolates
// every character. `unk_token` is not in the vocabulary, so that an unknown character is an error
// there too. Special tokens are added tokens.
std::string CharTokenizerFile(const CharTokenizer& tokenizer);

// A byte tokenizer is a BPE model without merges over GPT-2's printable names of the 256 bytes,
// behind ByteLevel, with the added special tokens, of which <|endoftext|> is the first.
std::string ByteTokenizerFile(std::span<const SpecialToken> specials);

// The tokenizer that the contents of a tokenizer.json say: one of these, or a byte-level BPE
// (vocab_files.h). What is in it and not supported is a kInput Error that names it.
std::unique_ptr<Tokenizer> TokenizerFromJson(const std::string& contents, const std::string& where);

// Says which file of a tokenizer a directory has that folio does not read, and how to come by one
// that it does; "" where there is none, or one that is read.
std::string OtherTokenizerIn(const std::filesystem::path& dir);

// Returns whether a member is as a newer writer of the format leaves it where nobody uses it.
bool IsDefault(const Json& value);

// The tokenizer that meta.pkl of a data set of nanoGPT says: `itos` numbers its characters, in
// ascending order, and behind them as many special tokens, which are longer, as "special_tokens"
// says, which is folio's own; their number is `vocab_size`. Of `stoi`, which says the same, nothing
// is read. Throws a kInput Error for anything else; whatever the pickle holds is only read, and
// nothing of it executed.
std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path);

// The tokenizer that nanochat's tokenizer.pkl says: a pickled Encoding of tiktoken, of which the
// ranks of tokens, the special tokens and the pattern are read, and nothing executed. Texts begin
// with <|bos|>, and conversations have nanochat's template. Throws a kInput Error for a pickle of
// anything else, and for a pattern that folio does not have.
// https://github.com/karpathy/nanochat
std::unique_ptr<Tokenizer> ReadNanochatTokenizer(const std::filesystem::path& path);

}  // namespace folio
