#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "folio/text/char_tokenizer.h"

namespace folio {

// Reads a tokenizer from a directory (tokenizer.json, or vocab.json and merges.txt, or encoder.json
// and vocab.bpe, or nanoGPT's meta.pkl) or from one of these files, a GGUF file (of any size: its
// header alone is read) or a .tiktoken file named after its encoding. Throws a kInput Error that
// names any content that is not supported.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file);

// Names a tokenizer file in the directory that folio does not read, and how to get one that it
// does; "" if there is none, or one that is read.
std::string OtherTokenizerIn(const std::filesystem::path& dir);

// The tokenizer of meta.pkl in a nanoGPT data set: `itos` numbers its characters in ascending
// order, and behind them special tokens, which are longer, as many as folio's own member
// "special_tokens" says; their total is `vocab_size`. `stoi`, which says the same, is ignored.
// Throws a kInput Error for anything else; the pickle is only parsed, nothing in it is executed.
std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path);

// The tokenizer of nanochat's tokenizer.pkl: a pickled Encoding of tiktoken, from which the ranks
// of tokens, the special tokens and the pattern are read; nothing is executed. Texts begin with
// <|bos|>, and conversations use nanochat's template. Throws a kInput Error for any other pickle,
// and for a pattern that folio does not have. https://github.com/karpathy/nanochat
std::unique_ptr<Tokenizer> ReadNanochatTokenizer(const std::filesystem::path& path);

}  // namespace folio
