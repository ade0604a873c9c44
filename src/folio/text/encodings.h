#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/text/tokenizer.h"

namespace folio {

// The tokenizer that `spec` names: a published encoding, from its EncodingFile; "bytes"; a path for
// LoadTokenizer; or a run directory, for its checkpoint's tokenizer. If the files of a name are
// missing, throws a kInput Error that says where they were searched for and how to get them (`folio
// tokenizer fetch NAME`); a kUsage Error if it is neither a name nor a path. A file or directory
// with the name of an encoding must be written as a path ("./gpt2").
std::unique_ptr<Tokenizer> OpenTokenizer(const std::string& spec);

// The files that OpenTokenizer(spec) reads or may read.
std::vector<std::string> TokenizerFiles(const std::string& spec);

}  // namespace folio
