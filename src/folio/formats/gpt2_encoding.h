#pragma once

#include <memory>

#include "folio/formats/model_formats.h"

namespace folio {

// For a model that came without a tokenizer from a program whose models usually have GPT-2's: gives
// it that where its vocabulary is of that size, perhaps padded to 50304, and the encoding's files
// are on this machine; else says in tokenizer_help how to get one, `otherwise` for other sizes.
void UseGpt2Encoding(FoundModel& found, const char* otherwise);

// GPT-2's tokenizer, or null where its files are not on this machine.
std::unique_ptr<Tokenizer> FindGpt2Encoding();

}  // namespace folio
