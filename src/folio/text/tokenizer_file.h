#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "folio/text/char_tokenizer.h"

namespace folio {

// The tokenizer that the contents of a tokenizer.json say: of characters, of bytes
// (tokenizer_json_writer.h), or a BPE (vocab_files.h). What is in it and not supported is a kInput
// Error that names it.
std::unique_ptr<Tokenizer> TokenizerFromJson(const std::string& contents, const std::string& where);

// Says which file of a tokenizer a directory has that folio does not read, and how to come by one
// that it does; "" where there is none, or one that is read.
std::string OtherTokenizerIn(const std::filesystem::path& dir);

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
