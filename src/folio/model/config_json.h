#pragma once

#include <string>
#include <string_view>

#include "folio/model/config.h"

namespace folio {

// Hugging Face's config.json for model_type "gpt2", with the fields of GptConfig that it lacks
// beside its own, or for "folio", a model that GPT-2 cannot express. What it leaves out gets
// Hugging Face's default. Throws a kInput Error whose `what` begins with `where` for a value of the
// wrong type or range, and for one that folio does not implement.
GptConfig GptConfigFromJson(std::string_view text, const std::string& where);

// A config.json that Hugging Face's GPT2LMHeadModel reads, if it is a GPT-2 (WhyNotGpt2), and that
// reads back as the same config. `dtype` is that of the weights beside it; `checksums` whether it
// says that checksums (io/checksums.h) are beside it, too.
std::string GptConfigToJson(const GptConfig& config, Dtype dtype = Dtype::kF32,
                            bool checksums = false);

// generation_config.json: how other programs begin and end a text. Of its fields only these are
// read, where config.json has none.
void AddGenerationConfig(std::string_view text, const std::string& where, GptConfig& config);
std::string GenerationConfigToJson(const GptConfig& config);

}  // namespace folio
