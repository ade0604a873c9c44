#pragma once

#include <filesystem>
#include <memory>

#include "folio/text/char_tokenizer.h"

namespace folio {

// The tokenizer that meta.pkl of a data set of nanoGPT says: `itos` numbers its characters, in
// ascending order, and behind them as many special tokens, which are longer, as "special_tokens"
// says, which is folio's own; their number is `vocab_size`. Of `stoi`, which says the same, nothing
// is read. Throws a kInput Error for anything else; whatever the pickle holds is only read, and
// nothing of it executed.
std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path);

}  // namespace folio
