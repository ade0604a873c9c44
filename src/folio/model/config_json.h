#pragma once

#include <string>
#include <string_view>

#include "folio/model/config.h"

namespace folio {

// Hugging Face's config.json for model_type "gpt2", with the fields of GptConfig that it lacks
// beside its own. What it leaves out gets Hugging Face's default. Throws a kInput Error whose
// `what` begins with `where` for a value of the wrong type or range, and for one that folio does
// not implement.
GptConfig GptConfigFromJson(std::string_view text, const std::string& where);

// A config.json that Hugging Face's GPT2LMHeadModel reads, and that reads back as the same config.
std::string GptConfigToJson(const GptConfig& config);

}  // namespace folio
