#include <string>
#include <vector>

#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/tokenizer/tokenizer_input.h"
#include "folio/corpus/count_tokens.h"
#include "folio/term/signals.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

class TokenizerCountCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer count",
            .summary = "count the tokens of texts",
            .group = "tokenizer",
            .details =
                "For each file, or for standard input: tokens, bytes, characters and bytes per\n"
                "token. Each text is counted by itself.",
            .examples = {"folio tokenizer count chapters/*.txt --tokenizer o200k_base",
                         "folio data stories --out - | folio tokenizer count --tokenizer gpt2"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("TEXT-FILE", &files_, "texts to count; - for standard input");
    AddTokenizerFlag(flags, &tokenizer_);
    AddSpecialFlag(flags, &special_);
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    const auto tokenizer = OpenTokenizer(tokenizer_);
    if (files_.empty()) files_ = {"-"};
    std::vector<TextCount> counts;
    for (const std::string& file : files_) {
      counts.push_back(CountText(*tokenizer, file, SpecialRule::Named(special_)));
    }
    context.console.Result(DescribeCounts(std::move(counts), context.console.json()));
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::string tokenizer_, special_ = "raise";
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerCountCommand() {
  return std::make_unique<TokenizerCountCommand>();
}

}  // namespace folio
