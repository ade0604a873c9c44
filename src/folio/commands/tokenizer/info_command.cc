#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/lesson/explain_tokens.h"
#include "folio/term/terminal_text.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

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
    const bool json = context.console.json(), ascii = AsciiOnly(context.console.out());
    context.console.Result(ids.empty() ? DescribeTokenizer(*tokenizer, tokenizer_, json, ascii)
                                       : DescribeTokens(*tokenizer, ids, json, ascii));
    return 0;
  }

 private:
  std::string tokenizer_;
  std::vector<std::string> tokens_;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerInfoCommand() {
  return std::make_unique<TokenizerInfoCommand>();
}

}  // namespace folio
