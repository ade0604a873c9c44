#include "folio/inspect/token_names.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/base/visible_text.h"

namespace folio {

void RequireTwoTokens(const ModelText& text, const std::string& why) {
  if (text.ids.size() >= 2) return;
  throw InputError(fmt::format("{}: a single token", text.name), why,
                   "give a text of at least two tokens");
}

bool TokenNames::Has(int32_t id) const {
  return tokenizer_ != nullptr && id < tokenizer_->vocab_size();
}

std::string_view TokenNames::Bytes(int32_t id) const {
  return Has(id) ? tokenizer_->TokenBytes(id) : std::string_view();
}

std::string TokenNames::Shown(int32_t id) const {
  const std::string_view bytes = Bytes(id);
  return bytes.empty() ? fmt::format("#{}", id) : VisibleToken(bytes);
}

std::vector<std::string> TokenNames::Shown(std::span<const int32_t> ids) const {
  std::vector<std::string> shown;
  for (const int32_t id : ids) shown.push_back(Shown(id));
  return shown;
}

Json TokenNames::AsJson(int32_t id) const {
  Json json = {{"id", id}, {"text", nullptr}};
  if (Has(id)) {
    const std::string_view bytes = Bytes(id);
    json["text"] = ReplaceInvalidUtf8(bytes);
    if (FindInvalidUtf8(bytes) != std::string_view::npos) {
      Json& list = json["bytes"] = Json::array();
      for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
    }
  }
  return json;
}

Json TokenNames::AsJson(std::span<const int32_t> ids) const {
  Json json = Json::array();
  for (const int32_t id : ids) json.push_back(AsJson(id));
  return json;
}

}  // namespace folio
