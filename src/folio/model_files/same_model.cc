#include "folio/model_files/same_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/model_files/families.h"

namespace folio {

std::string SettingLines(std::span<const Field> fields, std::span<const std::string_view> but) {
  std::string lines;
  for (const Field& field : fields) {
    if (std::ranges::count(but, field.key) > 0) continue;
    lines += fmt::format("{} = {}\n", field.key, FieldText(field));
  }
  return lines;
}

void RequireSameModel(const GptConfig& saved, const GptConfig& wanted, const std::string& where) {
  const auto lines_of = [&](const GptConfig& config) {
    GptConfig copy = WithoutRedundantSizes(config);
    std::vector<Field> fields;
    for (GptRow& row : copy.Rows()) {
      if ((row.roles & GptRow::kOfTraining) == 0) fields.push_back(std::move(row));
    }
    return Split(SettingLines(fields, {}), '\n');
  };
  const std::vector<std::string> had = lines_of(saved), has = lines_of(wanted);
  const auto [was, is] = std::ranges::mismatch(had, has);
  if (was == had.end()) return;
  throw InputError(fmt::format("{} contains a different model", where),
                   fmt::format("it has {}, but the settings have {}", *was, *is),
                   "resume with the original settings of the run");
}

}  // namespace folio
