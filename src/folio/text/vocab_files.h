#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "folio/text/bpe_vocab.h"

namespace folio {

// Readers of the files that vocabularies are published in. Files are not trusted: what is wrong is
// a kInput Error that names the file and the line or the token. All results have passed
// CheckBpeVocab.

// Files that are longer are refused before they are read.
inline constexpr uint64_t kMaxVocabFileBytes = uint64_t{64} << 20;

// vocab.bpe + encoder.json (GPT-2) and vocab.json + merges.txt (Hugging Face) are the same format:
// a JSON object from token to id in GPT-2's printable names of bytes, and a line for each merge, by
// rank, behind an optional first line `#version`. What is in the JSON and made by no merge and is
// not a byte is a special token. The split pattern is GPT-2's, as neither file names one.
struct VocabBeside {
  std::string name = {};          // of a published encoding, whose counts must be met
  std::string added_tokens = {};  // a file: a JSON object from special token to id
};
BpeVocab ReadVocabAndMerges(const std::string& vocab_json, const std::string& merges_txt,
                            const VocabBeside& beside = {});

// A line `base64 rank` for each token. `name` is one of the published encodings, which gives the
// pattern and the special tokens; its count of ranks must be met.
BpeVocab ReadTiktoken(const std::string& path, const std::string& name);

// tokenizer.json with a BPE model over ByteLevel; `contents` is the file's text. What is in it and
// would change ids in a way that BpeVocab cannot say is refused by name.
BpeVocab ReadTokenizerJson(std::string_view contents, const std::string& path);

// BpeTokenizer writes these files. All ids are kept, those of special tokens and those that are not
// used too. Only tokenizer.json says the pattern, which unmade tokens are special, and whether
// pretokens are looked up as a whole. The same for the same vocabulary, whatever its name and the
// files that it came from.
std::string TokenizerJson(const BpeVocab& vocab);
std::string VocabJson(const BpeVocab& vocab);
std::string MergesTxt(const BpeVocab& vocab);

}  // namespace folio
