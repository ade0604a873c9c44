#pragma once

#include <span>
#include <string>
#include <string_view>

#include "folio/base/fields.h"
#include "folio/model/config.h"

namespace folio {

// A line "key = value" for each setting but those of the keys in `but`: two configurations with the
// same lines are the same, whether a file, a caller or another rank has them.
std::string SettingLines(std::span<const Field> fields, std::span<const std::string_view> but);

// Throws a kInput Error unless training can go on with the weights of `saved`, which lie at
// `where`, as `wanted`: all settings of the two must be the same but dropout and those of the first
// weights.
void RequireSameModel(const GptConfig& saved, const GptConfig& wanted, const std::string& where);

}  // namespace folio
