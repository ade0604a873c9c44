#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/published_encodings.h"
#include "folio/text/tokenizer.h"

namespace folio {

// The directory of what is fetched of a kind, "tokenizers" or "models": $FOLIO_HOME/KIND, else
// $XDG_CACHE_HOME/folio/KIND, else ~/.cache/folio/KIND; "" where none of them is set.
std::string FetchedHome(std::string_view kind);
// The directory in that of a model or a tokenizer where what is on its way lies.
inline constexpr char kArrivingDir[] = ".arriving";

// Returns where a file of an encoding lies in FetchedHome("tokenizers"), or is to lie: in the
// directory of the encoding's name, or if it is only there in that of another encoding with the
// same file (p50k_edit has that of p50k_base). "" where that is.
std::string EncodingFile(const PublishedEncoding& encoding, const PublishedFile& file);

// The tokenizer that `spec` names: a published encoding, for its EncodingFiles; "bytes"; a path for
// LoadTokenizer; or a run directory, for its checkpoint's tokenizer. A name whose files are not
// there is a kInput Error that says where they were looked for and how to get them (`folio
// tokenizer fetch NAME`); one that is neither a name nor a path is a kUsage Error. A file or
// directory of the same name as an encoding is meant only when spelt as a path ("./gpt2").
std::unique_ptr<Tokenizer> OpenTokenizer(const std::string& spec);

// The files that OpenTokenizer(spec) reads, or could have.
std::vector<std::string> TokenizerFiles(const std::string& spec);

}  // namespace folio
