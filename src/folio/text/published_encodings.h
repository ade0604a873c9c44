#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/special_tokens.h"
#include "folio/text/split.h"

namespace folio {

// A published file: where it lies on the network and what it must hash to.
struct PublishedFile {
  std::string_view name;  // under which folio keeps it: "vocab.bpe", "cl100k_base.tiktoken"
  std::string_view url;
  std::string_view sha256;  // 64 hexadecimal digits
  int64_t bytes;
};

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

}  // namespace folio
