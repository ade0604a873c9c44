#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/text/tokenizer.h"

namespace folio {

// The tokenizer that `spec` names: a published encoding, for its EncodingFiles; "bytes"; a path for
// LoadTokenizer; or a run directory, for its checkpoint's tokenizer. A name whose files are not
// there is a kInput Error that says where they were looked for and how to get them (`folio
// tokenizer fetch NAME`); one that is neither a name nor a path is a kUsage Error. A file or
// directory of the same name as an encoding is meant only when spelt as a path ("./gpt2").
std::unique_ptr<Tokenizer> OpenTokenizer(const std::string& spec);

// The files that OpenTokenizer(spec) reads, or could have.
std::vector<std::string> TokenizerFiles(const std::string& spec);

}  // namespace folio
