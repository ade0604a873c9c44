#include "folio/text/nanogpt_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/pickle.h"

namespace folio {
namespace {

struct MetaTokens {
  std::vector<char32_t> characters;
  std::vector<std::string> specials;

  size_t size() const { return characters.size() + specials.size(); }
  // Takes the next; false if it cannot be one.
  bool Take(const Json& text) {
    if (!text.is_string()) return false;
    const char32_t code = OnlyCharacter(text.text());
    if (code != 0) {
      const bool ascends = characters.empty() || characters.back() < code;
      characters.push_back(code);
      return ascends && specials.empty();
    }
    specials.push_back(text.text());
    return !characters.empty() && !text.text().empty() &&
           FindInvalidUtf8(text.text()) == std::string::npos &&
           std::ranges::count(specials, text.text()) == 1;
  }
};

// Returns the tokens of itos, which numbers them 0, 1, ...; none if it does not, or they are no
// tokens.
MetaTokens TokensOf(const Json* itos, const Json* specials) {
  MetaTokens tokens;
  if (itos == nullptr || !itos->is_object()) return {};
  for (const auto& [id, text] : itos->items()) {
    if (id != fmt::format("{}", tokens.size()) || !tokens.Take(text)) return {};
  }
  const Json expected = tokens.specials.size();
  return (specials == nullptr ? Json(0) : *specials) == expected ? tokens : MetaTokens{};
}

}  // namespace

std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path) {
  const Json meta = ReadPlainPickle(path);
  const auto refuse = [&](const std::string& cause) {
    return InputError(fmt::format("{}: not a tokenizer that folio knows", path.string()), cause,
                      "move it away, and name the tokenizer with --tokenizer");
  };
  if (!meta.is_object()) throw refuse("expected a dictionary");
  MetaTokens tokens = TokensOf(meta.find("itos"), meta.find("special_tokens"));
  if (tokens.characters.empty()) {
    throw refuse("expected itos, which numbers characters in ascending order");
  }
  const Json* size = meta.find("vocab_size");
  if (size == nullptr || *size != Json(tokens.size())) {
    throw refuse(fmt::format("vocab_size is {}, itos has {} characters",
                             size == nullptr ? "not there" : size->dump(), tokens.size()));
  }
  return std::make_unique<CharTokenizer>(std::move(tokens.characters), tokens.specials);
}

}  // namespace folio
