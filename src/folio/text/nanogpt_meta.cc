#include "folio/text/nanogpt_meta.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/pickle_json.h"

namespace folio {
namespace {

// The character that a text is, 0 if it is not one.
char32_t OnlyCharacter(const Json& value) {
  if (!value.is_string() || value.text().empty()) return 0;
  const Utf8Char c = DecodeUtf8(value.text());
  const bool whole = c.status == Utf8Status::kValid && c.length == value.text().size();
  return whole ? c.code : 0;
}

// Those of itos, which numbers them 0, 1, ... in ascending order; empty if it does not.
std::vector<char32_t> Characters(const Json* itos) {
  std::vector<char32_t> characters;
  if (itos == nullptr || !itos->is_object()) return {};
  for (const auto& [id, text] : itos->items()) {
    const char32_t code = OnlyCharacter(text);
    const bool ascends = characters.empty() || characters.back() < code;
    if (id != fmt::format("{}", characters.size()) || !ascends) return {};
    characters.push_back(code);
  }
  return characters;
}

}  // namespace

std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path) {
  const Json meta = ReadPlainPickle(path);
  const auto refuse = [&](const std::string& cause) {
    return InputError(fmt::format("{}: not a tokenizer that folio knows", path.string()), cause,
                      "move it away, and name the tokenizer with --tokenizer");
  };
  if (!meta.is_object()) throw refuse("expected a dictionary");
  std::vector<char32_t> characters = Characters(meta.find("itos"));
  if (characters.empty()) {
    throw refuse("expected itos, which numbers characters in ascending order");
  }
  const Json* size = meta.find("vocab_size");
  if (size == nullptr || *size != Json(std::ssize(characters))) {
    throw refuse(fmt::format("vocab_size is {}, itos has {} characters",
                             size == nullptr ? "not there" : size->dump(), characters.size()));
  }
  return std::make_unique<CharTokenizer>(std::move(characters));
}

}  // namespace folio
