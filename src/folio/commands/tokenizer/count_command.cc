#include <string>
#include <vector>

#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/corpus/count_tokens.h"
#include "folio/corpus/text_files.h"
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
                "token. Each text is counted by itself. What is a text is what folio data prepare\n"
                "takes for one: of JSON lines, the documents.",
            .examples = {"folio tokenizer count chapters/*.txt --tokenizer o200k_base",
                         "folio data stories --out - | folio tokenizer count --tokenizer gpt2"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("TEXT-FILE", &files_, "texts, or directories of such; - for standard input");
    AddTokenizerFlag(flags, &tokenizer_);
    AddSpecialFlag(flags, &special_);
    flags.Value(Field{"field", &texts_.field, "of JSON lines: the member that holds the text"});
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    const auto tokenizer = OpenTokenizer(tokenizer_);
    if (files_.empty()) files_ = {"-"};
    std::vector<TextCount> counts;
    const TextFiles found = FindTextFiles(files_, texts_);
    if (!found.left_out.empty()) context.console.Note(found.left_out);
    for (const std::string& file : found.files) {
      counts.push_back(CountText(*tokenizer, file, SpecialRule::Named(special_), texts_));
    }
    context.console.Result(DescribeCounts(std::move(counts), context.console.json()));
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::string tokenizer_, special_ = "raise";
  TextOptions texts_;
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerCountCommand() {
  return std::make_unique<TokenizerCountCommand>();
}

}  // namespace folio
