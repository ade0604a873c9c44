#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/tokenizer.h"

namespace folio {

// The tokenizer described by the contents of a tokenizer.json: of characters, of bytes
// (tokenizer_json_writer.h), or a BPE. Throws a kInput Error that names any content that is not
// supported.
std::unique_ptr<Tokenizer> TokenizerFromJson(const std::string& contents, const std::string& where);

// Returns true if a member has the value with which newer writers of the format mark it as unused.
bool IsDefault(const Json& value);

}  // namespace folio
