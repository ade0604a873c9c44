#include "folio/commands/text_input.h"

#include <fmt/format.h>

#include <span>

#include "folio/base/error.h"
#include "folio/term/token_streams.h"

namespace folio {

std::string ReadAll(ByteInput input) {
  constexpr size_t kLongestText = size_t{1} << 26;
  std::string text;
  while (input.Read(text, size_t{1} << 20) > 0) {
    if (text.size() > kLongestText) {
      throw InputError(fmt::format("{}: longer than {} bytes", input.name(), kLongestText), {},
                       "give the part that the model is to see");
    }
  }
  return text;
}

std::vector<int32_t> ParseIds(const std::string& list, const std::string& where, int64_t V) {
  std::vector<int32_t> ids;
  ByteInput input = ByteInput::FromText(list, where);
  ReadIds(input, IdFormat::kText,
          [&](std::span<const int32_t> some) { ids.insert(ids.end(), some.begin(), some.end()); });
  for (const int32_t id : ids) {
    if (id >= V) {
      throw InputError(fmt::format("{}: the model has no token {}", where, id),
                       fmt::format("its tokens are 0 to {}", V - 1));
    }
  }
  return ids;
}

}  // namespace folio
