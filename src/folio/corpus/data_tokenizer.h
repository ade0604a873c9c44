#pragma once

#include <filesystem>
#include <memory>

#include "folio/data/dataset.h"
#include "folio/text/tokenizer.h"

namespace folio {

// The tokenizer that came with the data, or null if nobody knows which one that is. Throws a kInput
// Error if it is not there, or not the one that made the tokens.
std::unique_ptr<Tokenizer> LoadDataTokenizer(const Dataset& data);

// Throws a kInput Error if `checkpoint` holds another tokenizer than `tokenizer`, the data's.
void RequireSameTokenizer(const std::filesystem::path& checkpoint, const Dataset& data,
                          const Tokenizer& tokenizer);

}  // namespace folio
