#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/commands/commands.h"
#include "folio/commands/tokenizer/tokenizer_input.h"
#include "folio/io/json.h"
#include "folio/lesson/explain_tokens.h"
#include "folio/term/json_lines.h"
#include "folio/term/terminal_text.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

// The id of the longest token that is not special; the lowest of several.
int32_t LongestToken(const Tokenizer& tokenizer) {
  std::vector<bool> special(static_cast<size_t>(tokenizer.vocab_size()));
  for (const SpecialToken& token : tokenizer.special_tokens()) {
    special[static_cast<size_t>(token.id)] = true;
  }
  int32_t longest = 0;
  size_t length = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (special[static_cast<size_t>(id)] || tokenizer.TokenBytes(id).size() <= length) continue;
    longest = id;
    length = tokenizer.TokenBytes(id).size();
  }
  return longest;
}

Json TokenJson(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  return {{"id", id}, {"text", ReplaceInvalidUtf8(bytes)}, {"hex", HexDigits(bytes)}};
}

std::string TokenLine(const Tokenizer& tokenizer, int32_t id, bool ascii) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  return fmt::format("{} {} ({} bytes: {})", id, QuoteBytes(bytes, ascii), bytes.size(),
                     HexBytes(bytes));
}

class TokenizerInfoCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer info",
            .summary = "describe a tokenizer, or show single tokens",
            .group = "tokenizer",
            .examples = {"folio tokenizer info --tokenizer gpt2",
                         "folio tokenizer info --tokenizer cl100k_base --token 100 --token 9906"}};
  }

  void AddFlags(Flags& flags) override {
    AddTokenizerFlag(flags, &tokenizer_);
    flags.List("--token", &tokens_, "show this token alone; may be given again",
               {.placeholder = "ID"});
  }

  int Run(const Context& context) override {
    std::vector<int32_t> ids;
    for (const std::string& token : tokens_) {
      int64_t id = 0;
      SetField(Field{"token", &id, "", 0, 0x7FFFFFFF}, token, "--token");
      ids.push_back(static_cast<int32_t>(id));
    }
    const auto tokenizer = OpenTokenizer(tokenizer_);
    const bool json = context.console.json();
    const Terminal& terminal = context.console.out();
    const bool ascii = AsciiOnly(terminal);
    if (!ids.empty()) {
      context.console.Result(json ? TokensJson(*tokenizer, ids)
                                  : TokenLines(*tokenizer, ids, ascii));
    } else {
      context.console.Result(json ? InfoJson(*tokenizer) : InfoText(*tokenizer, ascii));
    }
    return 0;
  }

 private:
  static std::string TokensJson(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    Json json = {{"schema", 1}, {"tokens", Json::array()}};
    for (const int32_t id : ids) json["tokens"].push_back(TokenJson(tokenizer, id));
    return json.dump() + "\n";
  }

  static std::string TokenLines(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                bool ascii) {
    std::string text;
    for (const int32_t id : ids) text += TokenLine(tokenizer, id, ascii) + "\n";
    return text;
  }

  std::string InfoJson(const Tokenizer& tokenizer) const {
    Json json = {{"schema", 1},
                 {"tokenizer", tokenizer_},
                 {"kind", tokenizer.kind()},
                 {"vocab_size", tokenizer.vocab_size()}};
    if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer)) {
      json["name"] = bpe->vocab().name;
      json["merges"] = bpe->vocab().merges.size();
      json["pattern"] = SplitPatternName(bpe->vocab().pattern);
      json["pattern_regex"] = SplitPatternRegex(bpe->vocab().pattern);
    }
    json["end_of_text"] = tokenizer.end_of_text() ? Json(*tokenizer.end_of_text()) : Json(nullptr);
    json["special_tokens"] = Json::array();
    for (const SpecialToken& token : tokenizer.special_tokens()) {
      json["special_tokens"].push_back({{"text", token.text}, {"id", token.id}});
    }
    json["longest_token"] = TokenJson(tokenizer, LongestToken(tokenizer));
    json["hash"] = tokenizer.hash();
    json["files"] = TokenizerFiles(tokenizer_);
    return json.dump(2) + "\n";
  }

  std::string InfoText(const Tokenizer& tokenizer, bool ascii) const {
    std::string text;
    const auto add = [&](std::string_view name, const std::string& value) {
      text += fmt::format("{:<14}{}\n", name, value);
    };
    const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
    if (bpe != nullptr && !bpe->vocab().name.empty()) add("name", bpe->vocab().name);
    add("kind", std::string(tokenizer.kind()));
    add("vocabulary", WithCommas(tokenizer.vocab_size()));
    if (bpe != nullptr) {
      add("merges", WithCommas(static_cast<int64_t>(bpe->vocab().merges.size())));
      add("pattern", fmt::format("{}: {}", SplitPatternName(bpe->vocab().pattern),
                                 SplitPatternRegex(bpe->vocab().pattern)));
    }
    for (const SpecialToken& token : tokenizer.special_tokens()) {
      add("special", fmt::format("{} {}", token.id, QuoteBytes(token.text, ascii)));
    }
    if (tokenizer.end_of_text()) add("end of text", fmt::format("{}", *tokenizer.end_of_text()));
    const int32_t longest = LongestToken(tokenizer);
    const std::string_view bytes = tokenizer.TokenBytes(longest);
    add("longest token",
        fmt::format("{} {} ({} bytes)", longest, QuoteBytes(bytes, ascii), bytes.size()));
    add("hash", tokenizer.hash());
    for (const std::string& file : TokenizerFiles(tokenizer_)) add("file", file);
    return text;
  }

  std::string tokenizer_;
  std::vector<std::string> tokens_;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerInfoCommand() {
  return std::make_unique<TokenizerInfoCommand>();
}

}  // namespace folio
