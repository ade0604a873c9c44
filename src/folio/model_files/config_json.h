#pragma once

#include <string>
#include <string_view>

#include "folio/model/config.h"
#include "folio/tensor/dtype.h"

namespace folio {

// Hugging Face's config.json of a family (families.h), with the fields of GptConfig that it lacks
// beside its own. Keys that it leaves out get Hugging Face's default. Throws a kInput Error whose
// `what` begins with `where` for a value of the wrong type or range, and for one that folio does
// not implement.
GptConfig GptConfigFromJson(std::string_view text, const std::string& where);

// A config.json of the first family that expresses the model, for Hugging Face's class to read,
// which reads back as the same config. `dtype` is that of the weights beside it; with `checksums`
// it says that there are some (io/checksums.h).
std::string GptConfigToJson(const GptConfig& config, Dtype dtype = Dtype::kF32,
                            bool checksums = false);

// generation_config.json: how other programs begin and end a text. Of its fields only these are
// read, where config.json has none.
void AddGenerationConfig(std::string_view text, const std::string& where, GptConfig& config);
std::string GenerationConfigToJson(const GptConfig& config);

}  // namespace folio
