#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/model_dir.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer.h"

namespace folio {

// An encoding that OpenAI published.
struct PublishedEncoding {
  std::string_view name;     // "gpt2"
  std::string_view summary;  // "GPT-2's, 50,257 tokens"
  SplitPattern pattern;
  int32_t ranks;       // mergeable tokens have ids 0 .. ranks - 1, perhaps with a special one
  int32_t vocab_size;  // including special tokens and unused ids between
  std::vector<SpecialToken> specials;  // by id
  std::vector<PublishedFile> files;
};

std::span<const PublishedEncoding> PublishedEncodings();
std::vector<std::string> PublishedEncodingNames();
// nullptr if there is none of that name. "r50k", "p50k", "cl100k" and "o200k" are short for the
// names that end in _base.
const PublishedEncoding* FindPublishedEncoding(std::string_view name);

// The directory of fetched files of a kind, "tokenizers" or "models": $FOLIO_HOME/KIND, else
// $XDG_CACHE_HOME/folio/KIND, else ~/.cache/folio/KIND; "" if none of them is set.
std::string FetchedHome(std::string_view kind);
// Downloads in progress are in this directory, inside of the directory of their model or tokenizer.
inline constexpr char kArrivingDir[] = ".arriving";

// The path of an encoding's file in FetchedHome("tokenizers"), present or not: in the directory of
// the encoding's name, or, if it exists only there, in that of another encoding with the same file
// (p50k_edit uses that of p50k_base). "" if FetchedHome is "".
std::string EncodingFile(const PublishedEncoding& encoding, const PublishedFile& file);

}  // namespace folio
