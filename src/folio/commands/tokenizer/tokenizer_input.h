#pragma once

#include <string>

#include "folio/cli/flags.h"
#include "folio/term/token_streams.h"

namespace folio {

// The flags --tokenizer and --special, alike in all commands that have them.
void AddTokenizerFlag(Flags& flags, std::string* spec, bool required = true);
void AddSpecialFlag(Flags& flags, std::string* name);

// "text", "u16", "u32", or "bin": nanoGPT's files, u16 where all ids of the tokenizer fit and else
// u32. Throws a kUsage Error for u16 where they do not.
IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer);

}  // namespace folio
