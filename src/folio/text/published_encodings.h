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
  int32_t ranks;       // mergeable tokens have ids 0 .. ranks - 1; a special one may be among them
  int32_t vocab_size;  // with special tokens and the ids between that are not used
  std::vector<SpecialToken> specials;  // by id
  std::vector<PublishedFile> files;
};

std::span<const PublishedEncoding> PublishedEncodings();
std::vector<std::string> PublishedEncodingNames();
// nullptr if there is none of that name. "r50k", "p50k", "cl100k" and "o200k" are the ones that end
// in _base.
const PublishedEncoding* FindPublishedEncoding(std::string_view name);

// The directory of what is fetched of a kind, "tokenizers" or "models": $FOLIO_HOME/KIND, else
// $XDG_CACHE_HOME/folio/KIND, else ~/.cache/folio/KIND; "" where none of them is set.
std::string FetchedHome(std::string_view kind);
// The directory in that of a model or a tokenizer where what is on its way lies.
inline constexpr char kArrivingDir[] = ".arriving";

// Returns where a file of an encoding lies in FetchedHome("tokenizers"), or is to lie: in the
// directory of the encoding's name, or if it is only there in that of another encoding with the
// same file (p50k_edit has that of p50k_base). "" where that is.
std::string EncodingFile(const PublishedEncoding& encoding, const PublishedFile& file);

}  // namespace folio
